package engine

import (
	"sort"

	"github.com/spillway-kv/spillway/engine/offheap"
)

const (
	// recentPutsMax bounds the puts whose keys are at hand.
	recentPutsMax = 1 << 16
	// recentKeyBytes is room for their keys, on average.
	recentKeyBytes = 64
)

// recentKeys keeps the keys of the newest puts outside the Go heap, so that the
// directory of a segment that has just become full can name its blocks without a
// look at the index. A position is one put's for ever: what is found under it is that
// put's key. Guarded by Store.mu.
type recentKeys struct {
	puts *offheap.Array[recentPut] // a ring
	text *offheap.Array[byte]      // a ring, each key in one piece

	putsEnd uint64 // puts ever added
	textEnd uint64 // bytes ever used
}

type recentPut struct {
	position uint64
	text     uint64 // where the key begins, counted as textEnd
	group    uint32
	keyBytes uint32
}

// newRecentKeys has room for the keys of so many puts, within its bounds.
func newRecentKeys(puts int) (r recentKeys, err error) {
	puts = max(min(puts, recentPutsMax), 1)
	if r.puts, err = offheap.Make[recentPut](puts); err != nil {
		return r, err
	}
	if r.text, err = offheap.Make[byte](max(puts*recentKeyBytes, KeyMaxBytes)); err != nil {
		r.puts.Free()
		return recentKeys{}, err
	}
	return r, nil
}

func (r *recentKeys) free() {
	if r.puts != nil {
		r.puts.Free()
		r.text.Free()
	}
}

// add remembers a put. Positions come in ascending order.
func (r *recentKeys) add(position uint64, group uint32, key []byte) {
	puts, text := r.puts.Slice(), r.text.Slice()
	if at := r.textEnd % uint64(len(text)); at+uint64(len(key)) > uint64(len(text)) {
		r.textEnd += uint64(len(text)) - at
	}
	puts[r.putsEnd%uint64(len(puts))] = recentPut{position, r.textEnd, group, uint32(len(key))}
	r.putsEnd++
	r.textEnd += uint64(copy(text[r.textEnd%uint64(len(text)):], key))
}

// find returns the key of the put with this position, which must not be kept
// across the next add; false if it is not remembered.
func (r *recentKeys) find(position uint64) (group uint32, key []byte, ok bool) {
	puts, text := r.puts.Slice(), r.text.Slice()
	n := min(r.putsEnd, uint64(len(puts)))
	put := func(i int) recentPut { return puts[(r.putsEnd-n+uint64(i))%uint64(len(puts))] }
	if n == 0 || position < put(0).position {
		return 0, nil, false
	}
	i := sort.Search(int(n), func(i int) bool { return put(i).position >= position })
	if i == int(n) {
		return 0, nil, false
	}
	p := put(i)
	if p.position != position || r.textEnd-p.text > uint64(len(text)) {
		return 0, nil, false
	}
	at := p.text % uint64(len(text))
	return p.group, text[at : at+uint64(p.keyBytes)], true
}
