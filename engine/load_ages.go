package engine

import (
	"fmt"
	"math"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/offheap"
	"github.com/spillway-kv/spillway/engine/table"
)

// loadedAges brings the blocks of a store that is opened into the order of their
// latest uses. Blocks without an age, put since ages were saved or under a policy that
// keeps none, are the youngest, in the order of their puts.
type loadedAges struct {
	mem  *offheap.Array[age] // those read, and by record those of the blocks
	ages []age               // by position
	of   []age               // by record: its block's; position 0: none
}

// readLoadedAges reads what was saved, and makes room for the ages of all blocks.
func (l *loader) readLoadedAges(blocks int) error {
	n := 0
	if err := l.s.readAges(func(age) error { n++; return nil }); err != nil {
		return fmt.Errorf("ages: %w", err)
	}
	mem, err := offheap.Make[age](n + blocks + 1)
	if err != nil {
		return fmt.Errorf("memory for ages: %w", err)
	}
	l.ages.mem = mem
	ages := mem.Slice()[:0]
	if err := l.s.readAges(func(a age) error { ages = append(ages, a); return nil }); err != nil {
		return fmt.Errorf("ages: %w", err)
	}
	if err := sortAges(ages); err != nil {
		return err
	}
	l.ages.ages, l.ages.of = ages, mem.Slice()[n:]
	return nil
}

// sortAges orders by position.
func sortAges(ages []age) error {
	return radixSort(len(ages), func(i int) uint64 { return ages[i].position }, func(order []foundAt) error {
		sorted, err := offheap.Make[age](len(ages))
		if err != nil {
			return fmt.Errorf("memory for ages: %w", err)
		}
		for i, at := range order {
			sorted.Slice()[i] = ages[at.index]
		}
		copy(ages, sorted.Slice())
		sorted.Free()
		return nil
	})
}

// note finds the age of a block; blocks come in the order of their positions.
func (a *loadedAges) note(ref table.Ref, position uint64) {
	for len(a.ages) > 0 && a.ages[0].position < position {
		a.ages = a.ages[1:]
	}
	known := age{position: position}
	if len(a.ages) > 0 && a.ages[0].position == position {
		known = a.ages[0]
	}
	a.of[ref] = known
}

// forget takes a block out that a later put has replaced.
func (a *loadedAges) forget(ref table.Ref) { a.of[ref] = age{} }

// admitAll hands the blocks to their policies, the one used longest ago first; of
// those used within a tick the deeper one, as a request would.
func (l *loader) admitAll() error {
	of, t := l.ages.of, l.s.table
	key := func(i int) uint64 {
		a := &of[i]
		if a.position == 0 {
			return math.MaxUint64
		}
		if a.flags&ageUses == 0 {
			return 1<<63 | a.position
		}
		return uint64(math.MaxUint32-a.ticks)<<31 | uint64(math.MaxInt32-min(t.At(table.Ref(i)).Depth, math.MaxInt32))
	}
	return radixSort(len(of), key, func(order []foundAt) error {
		for _, at := range order {
			a := &of[at.index]
			if a.position == 0 {
				continue
			}
			rec := t.At(table.Ref(at.index))
			past := a.past()
			if past.References == 0 {
				past = evict.Past{References: 1}
			}
			l.s.namespaces[rec.Namespace()-1].policy.Admit(evict.Handle(at.index),
				past.Access(evict.Access{ID: idBytes(rec.ID), Depth: rec.Depth, Importance: rec.Importance}))
		}
		return nil
	})
}

// radixSort hands to use the numbers below n in the order of their keys.
func radixSort(n int, key func(i int) uint64, use func(order []foundAt) error) error {
	var mem [2]*offheap.Array[foundAt]
	for i := range mem {
		m, err := offheap.Make[foundAt](n)
		if err != nil {
			return fmt.Errorf("memory to sort: %w", err)
		}
		defer m.Free()
		mem[i] = m
	}
	to, from := mem[0].Slice(), mem[1].Slice()
	all := uint64(0)
	for i := range from {
		from[i] = foundAt{position: key(i), index: uint32(i)}
		all |= from[i].position
	}
	for shift := 0; shift < 64 && all>>shift > 0; shift += digitBits {
		if all>>shift%(1<<digitBits) == 0 {
			continue // no number has anything there
		}
		radixPass(to, from, shift)
		to, from = from, to
	}
	return use(from)
}
