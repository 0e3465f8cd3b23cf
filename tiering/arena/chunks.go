package arena

import "bytes"

const (
	// AlignBytes is the alignment of a frame's address and of the size that it
	// takes.
	AlignBytes = 4096
	// borderBytes: no frame lies across a multiple of it, so that pieces of
	// registered memory, which are multiples, never cut a frame.
	borderBytes = 1 << 30

	chunkBytesMin = 256 << 10
	chunkBytesMax = 16 << 20
	chunksWanted  = 512
	wasteShare    = 8 // at most 1/8 of a run lies behind its last frame
)

// chunkSize is the unit in which an arena of totalBytes is dealt out to frame
// sizes: a power of two.
func chunkSize(totalBytes int64) int64 {
	size := int64(chunkBytesMin)
	for size < chunkBytesMax && totalBytes/size > chunksWanted {
		size *= 2
	}
	return size
}

// chunks knows which chunks of an arena belong to a run.
type chunks struct {
	sizeBytes int64
	perBorder int
	taken     []byte // 1: belongs to a run
	free      int
}

func newChunks(totalBytes int64) chunks {
	size := chunkSize(totalBytes)
	n := int(totalBytes / size)
	return chunks{sizeBytes: size, perBorder: int(borderBytes / size), taken: make([]byte, n), free: n}
}

// most is the length of the longest run there can be.
func (c *chunks) most() int { return min(c.perBorder, len(c.taken)) }

// lengths are the shortest run that holds a frame, and the one to take: the
// shortest that wastes little.
func (c *chunks) lengths(frameBytes int64) (least, best int) {
	least = int((frameBytes + c.sizeBytes - 1) / c.sizeBytes)
	best, bestShare := least, 1.0
	for n := least; n <= min(wasteShare*least, c.most()); n++ {
		run := int64(n) * c.sizeBytes
		share := float64(run%frameBytes) / float64(run)
		if share < bestShare {
			best, bestShare = n, share
		}
		if share <= 1.0/wasteShare {
			break
		}
	}
	return least, best
}

// take finds n free chunks in a row that do not cross a border, and takes them;
// -1 if there are none.
func (c *chunks) take(n int) int {
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

// give returns chunks that take took.
func (c *chunks) give(first, n int) {
	c.set(first, n, 0)
	c.free += n
}

func (c *chunks) set(first, n int, to byte) {
	for i := range n {
		c.taken[first+i] = to
	}
}
