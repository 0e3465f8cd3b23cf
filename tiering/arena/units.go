package arena

import "bytes"

const (
	// AlignBytes is the alignment of a frame's address and of the size that it
	// takes.
	AlignBytes = 4096
	// borderBytes: no frame lies across a multiple of it, so that pieces of
	// registered memory, which are multiples, never cut a frame.
	borderBytes = 1 << 30

	unitBytesMin = 256 << 10
	unitBytesMax = 16 << 20
	unitsWanted  = 512
	wasteShare   = 8 // at most 1/8 of a slab lies behind its last frame
)

// unitSize is the unit in which an arena of totalBytes is dealt out to frame
// sizes: a power of two.
func unitSize(totalBytes int64) int64 {
	size := int64(unitBytesMin)
	for size < unitBytesMax && totalBytes/size > unitsWanted {
		size *= 2
	}
	return size
}

// units knows which units of an arena belong to a slab.
type units struct {
	sizeBytes int64
	perBorder int
	taken     []byte // 1: belongs to a slab
	free      int
}

func newUnits(totalBytes int64) units {
	size := unitSize(totalBytes)
	n := int(totalBytes / size)
	return units{sizeBytes: size, perBorder: int(borderBytes / size), taken: make([]byte, n), free: n}
}

// most is the length of the longest slab there can be.
func (c *units) most() int { return min(c.perBorder, len(c.taken)) }

// lengths are the shortest slab that holds a frame, and the one to take: the
// shortest that wastes little.
func (c *units) lengths(frameBytes int64) (least, best int) {
	least = int((frameBytes + c.sizeBytes - 1) / c.sizeBytes)
	best, bestShare := least, 1.0
	for n := least; n <= min(wasteShare*least, c.most()); n++ {
		slab := int64(n) * c.sizeBytes
		share := float64(slab%frameBytes) / float64(slab)
		if share < bestShare {
			best, bestShare = n, share
		}
		if share <= 1.0/wasteShare {
			break
		}
	}
	return least, best
}

// take finds n free units in a row that do not cross a border, and takes them;
// -1 if there are none.
func (c *units) take(n int) int {
	if c.free < n {
		return -1
	}
	for i := 0; i+n <= len(c.taken); {
		skip := bytes.IndexByte(c.taken[i:], 0)
		if skip < 0 {
			return -1
		}
		i += skip
		if border := (i/c.perBorder + 1) * c.perBorder; i+n > border {
			i = border
			continue
		}
		if i+n > len(c.taken) {
			return -1
		}
		if used := bytes.IndexByte(c.taken[i:i+n], 1); used >= 0 {
			i += used + 1
			continue
		}
		c.set(i, n, 1)
		c.free -= n
		return i
	}
	return -1
}

// give returns units that take took.
func (c *units) give(first, n int) {
	c.set(first, n, 0)
	c.free += n
}

func (c *units) set(first, n int, to byte) {
	for i := range n {
		c.taken[first+i] = to
	}
}
