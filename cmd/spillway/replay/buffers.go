package replay

import (
	"strconv"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// alignBytes satisfies the direct I/O of any drive with 4 KiB sectors.
const alignBytes = 4096

// buffers are block-size pieces of memory that remember whose content they
// hold, so that a block just read and compared need not be made again for its
// put. They are made at first use and kept.
type buffers struct {
	blockBytes int
	blocksMax  int
	list       []*buffer
}

type buffer struct {
	pieces [][]byte // one piece of blockBytes
	id     uint64   // whose content it holds, if valid
	valid  bool
}

func newBuffers(blockBytes, blocksMax int) *buffers {
	return &buffers{blockBytes: blockBytes, blocksMax: blocksMax}
}

// at is buffer i, below blocksMax.
func (b *buffers) at(i int) *buffer {
	for len(b.list) <= i {
		b.list = append(b.list, &buffer{pieces: [][]byte{device.AlignedBuffer(b.blockBytes, alignBytes)}})
	}
	return b.list[i]
}

// with answers buffer i holding the content of block id.
func (b *buffers) with(i int, id uint64) [][]byte {
	at := b.at(i)
	if !at.valid || at.id != id {
		Fill(at.pieces[0], id)
		at.id, at.valid = id, true
	}
	return at.pieces
}

// keysOf makes the keys of a chain: the ids in decimal. They are valid until
// the next call.
func (r *runner) keysOf(ids []uint64) []engine.Key {
	r.keys, r.keyBytes = r.keys[:0], r.keyBytes[:0]
	for _, id := range ids {
		from := len(r.keyBytes)
		r.keyBytes = strconv.AppendUint(r.keyBytes, id, 10)
		r.keys = append(r.keys, engine.Key{Bytes: r.keyBytes[from:len(r.keyBytes):len(r.keyBytes)]})
	}
	return r.keys
}
