package arena

import "testing"

// TestBorders: no frame lies across a multiple of 1 GiB, whatever its size.
func TestBorders(t *testing.T) {
	for _, total := range []int64{3 << 30, 5<<30 + 16<<20, 64 << 30} {
		for _, frameBytes := range []int64{4096, 5 << 20, 9 << 20, 33 << 20, 64 << 20, 700 << 20, 1 << 30} {
			c := newUnits(total)
			least, best := c.lengths(frameBytes)
			if least > best || int64(least)*c.sizeBytes < frameBytes || best > c.most() {
				t.Fatalf("%d bytes: slabs of %d to %d units", frameBytes, least, best)
			}
			slabs := 0
			for {
				first := c.take(best)
				if first < 0 {
					break
				}
				slabs++
				start, end := int64(first)*c.sizeBytes, int64(first+best)*c.sizeBytes
				if end > total || start/borderBytes != (end-1)/borderBytes {
					t.Fatalf("a slab from %d to %d", start, end)
				}
			}
			if want := int(total/borderBytes) * (c.perBorder / best); slabs < want {
				t.Errorf("%d slabs of %d units in %d bytes, want %d", slabs, best, total, want)
			}
		}
	}
}

func TestUnitSize(t *testing.T) {
	for total, want := range map[int64]int64{2 << 20: 256 << 10, 1 << 30: 2 << 20, 64 << 30: 16 << 20, 1 << 40: 16 << 20} {
		if got := unitSize(total); got != want || borderBytes%got != 0 {
			t.Errorf("%d: %d, want %d", total, got, want)
		}
	}
}

// TestShorterSlab: where no long slab is free a shorter one serves.
func TestShorterSlab(t *testing.T) {
	a := small(t, 4<<20) // 16 units
	const nBytes = 290 << 10
	if least, best := a.units.lengths(nBytes); least >= best {
		t.Fatalf("%d, %d", least, best)
	}
	var held []Frame
	for range 14 {
		held = append(held, get(t, a, 256<<10))
	}
	held = append(held, get(t, a, nBytes))
	if _, err := a.Get(nBytes); err != ErrFull {
		t.Errorf("got %v", err)
	}
	for _, f := range held {
		f.Release()
	}
}
