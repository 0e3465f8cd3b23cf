package engine

import (
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// apartCounter counts the calls that are made apart.
type apartCounter struct{ calls int }

func (a *apartCounter) Apart(call func()) { a.calls++; call() }

// TestIndexIsApart calls every method that Pebble's file system and files have,
// now and in later versions: all of them run apart but reads and what touches no file.
func TestIndexIsApart(t *testing.T) {
	quick := []string{"PathBase", "PathJoin", "PathDir", "Unwrap", "Fd", "Read", "ReadAt"}
	check := func(typ reflect.Type, target func() any, threads *apartCounter) {
		for i := range typ.NumMethod() {
			name := typ.Method(i).Name
			method := reflect.ValueOf(target()).MethodByName(name)
			var args []reflect.Value
			for j := range method.Type().NumIn() - boolToInt(method.Type().IsVariadic()) {
				args = append(args, argument(method.Type().In(j)))
			}
			before := threads.calls
			method.Call(args)
			if apart := threads.calls > before; apart == slices.Contains(quick, name) {
				t.Errorf("%v.%s: apart %v", typ, name, apart)
			}
		}
	}
	threads := &apartCounter{}
	check(reflect.TypeFor[vfs.FS](), func() any { return apartFS{vfs.NewMem(), threads} }, threads)
	check(reflect.TypeFor[vfs.File](), func() any {
		f, err := apartFS{vfs.NewMem(), threads}.Create("a", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}, threads)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// argument is a harmless value of a type.
func argument(typ reflect.Type) reflect.Value {
	if typ.Kind() == reflect.String {
		return reflect.ValueOf("a").Convert(typ)
	}
	return reflect.Zero(typ)
}

// TestOpenedFilesAreApart: so are the files, however they are opened.
func TestOpenedFilesAreApart(t *testing.T) {
	fs := apartFS{vfs.NewMem(), &apartCounter{}}
	for what, open := range map[string]func() (vfs.File, error){
		"Create":        func() (vfs.File, error) { return fs.Create("a", vfs.WriteCategoryUnspecified) },
		"Open":          func() (vfs.File, error) { return fs.Open("a") },
		"OpenReadWrite": func() (vfs.File, error) { return fs.OpenReadWrite("b", vfs.WriteCategoryUnspecified) },
		"OpenDir":       func() (vfs.File, error) { return fs.OpenDir("") },
		"ReuseForWrite": func() (vfs.File, error) {
			if f, err := fs.FS.Create("c", vfs.WriteCategoryUnspecified); err != nil || f.Close() != nil {
				t.Fatal(err)
			}
			return fs.ReuseForWrite("c", "d", vfs.WriteCategoryUnspecified)
		},
	} {
		if what == "Open" {
			if _, err := fs.Create("a", vfs.WriteCategoryUnspecified); err != nil {
				t.Fatal(err)
			}
		}
		f, err := open()
		if _, ok := f.(apartFile); err != nil || !ok {
			t.Errorf("%s: %T, %v", what, f, err)
		}
	}
	if _, err := fs.Open("missing"); err == nil {
		t.Error("opened what is missing")
	}
	if keepApart(fs, nil, nil) != vfs.FS(fs) {
		t.Error("wrapped for a device that does not ask for it")
	}
}

// TestApartOnceLoaded: opening a store hands nothing over, a loaded one does.
func TestApartOnceLoaded(t *testing.T) {
	var loaded atomic.Bool
	threads := &apartCounter{}
	fs := apartFS{vfs.NewMem(), apartOnceLoaded{threads, &loaded}}
	for range 2 {
		if err := fs.MkdirAll("a", 0o700); err != nil {
			t.Fatal(err)
		}
		if (threads.calls > 0) != loaded.Load() {
			t.Errorf("loaded %v, %d calls apart", loaded.Load(), threads.calls)
		}
		loaded.Store(true)
	}
}
