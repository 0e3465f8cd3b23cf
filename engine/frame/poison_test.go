//go:build invariants

package frame

import "testing"

func TestReleasedFramesArePoisoned(t *testing.T) {
	p := newPool(t, 8*AlignBytes)
	f := p.TryGet(AlignBytes + 1)
	stale := f.Bytes()
	clear(stale)
	f.Release()
	for i, b := range stale[:cap(stale)] {
		if b != poisonByte {
			t.Fatalf("byte %d of a released frame is %#x, want %#x", i, b, poisonByte)
		}
	}
}
