package target

import "encoding/binary"

// blockKey is memory for a key: block and generation, big-endian, 8 bytes each.
type blockKey [16]byte

func (k *blockKey) of(block, generation uint64) []byte {
	binary.BigEndian.PutUint64(k[:], block)
	binary.BigEndian.PutUint64(k[8:], generation)
	return k[:]
}

// touchMax is how many blocks one call makes young.
const touchMax = 4096

// touched is memory for the keys of a prefix.
type touched struct {
	keys []blockKey
	list [][]byte
}

// tailFirst gives the keys of blocks, root first in each call, in calls that begin at
// the tail, so that the root ends up youngest.
func (t *touched) tailFirst(blocks []uint64, touch func(keys [][]byte)) {
	if need := min(len(blocks), touchMax); len(t.keys) < need {
		t.keys = make([]blockKey, need)
	}
	for end := len(blocks); end > 0; {
		from := max(0, end-touchMax)
		t.list = t.list[:0]
		for i, b := range blocks[from:end] {
			t.list = append(t.list, t.keys[i].of(b, 0))
		}
		touch(t.list)
		end = from
	}
}
