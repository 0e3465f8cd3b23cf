// Package offheap gives arrays of pointer-free items in memory that the
// garbage collector neither scans nor counts. The store keeps there what grows
// with the number of blocks (index, eviction lists) and its staging memory.
//
// The memory is private and anonymous, reads as zeros, starts on a page
// boundary, and becomes resident page by page as it is first written to:
// reserving a large array costs address space only. Transparent huge pages are
// asked for; whether they come is the system's decision.
//
// Ownership is explicit. Nothing frees an array but Free, and after Free every
// slice taken from it points to unmapped memory: touching one faults. The race
// detector does not see this memory.
package offheap

import (
	"fmt"
	"math"
	"reflect"
)

// Array is a fixed number of items outside the Go heap.
type Array[T any] struct {
	items  []T
	mapped []byte
}

// Make reserves n zeroed items. It panics if n is negative or if T holds a
// pointer of any kind (also strings, slices, maps, interfaces, channels and
// functions), because the garbage collector would not see it. An error means
// that the system refused the address space; errors.Is finds the errno.
func Make[T any](n int) (*Array[T], error) {
	typ := reflect.TypeFor[T]()
	if holdsPointers(typ) {
		panic(fmt.Sprintf("offheap: %v holds pointers", typ))
	}
	if n < 0 {
		panic(fmt.Sprintf("offheap: array of %d items", n))
	}
	itemBytes := int(typ.Size())
	if n == 0 || itemBytes == 0 {
		return &Array[T]{items: make([]T, n)}, nil
	}
	if n > math.MaxInt/itemBytes {
		return nil, fmt.Errorf("offheap: %d items of %d bytes exceed the address space", n, itemBytes)
	}
	mapped, err := reserve(n * itemBytes)
	if err != nil {
		return nil, fmt.Errorf("offheap: reserve %d items of %d bytes: %w", n, itemBytes, err)
	}
	return &Array[T]{items: view[T](mapped, n), mapped: mapped}, nil
}

// Slice returns all items, the same memory at every call; nil after Free. Its
// length and capacity are n, so append copies to the Go heap.
func (a *Array[T]) Slice() []T { return a.items }

// Free gives the memory back. Nothing may use a slice of the array any more.
// A second Free does nothing.
func (a *Array[T]) Free() {
	mapped := a.mapped
	a.items, a.mapped = nil, nil
	if mapped == nil {
		return
	}
	if err := release(mapped); err != nil {
		panic(fmt.Sprintf("offheap: unmap: %v", err))
	}
}

func holdsPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return false
	case reflect.Array:
		return t.Len() > 0 && holdsPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	default:
		return true
	}
}
