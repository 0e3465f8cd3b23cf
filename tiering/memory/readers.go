package memory

import "github.com/spillway-kv/spillway/engine"

// readersSlots is how many blocks' last readers are remembered.
const readersSlots = 1 << 16

// readers remembers who has read which block last, of the blocks read lately: each
// has one slot, and the next block with the same slot takes it over.
type readers struct {
	slots []readerSlot // made with the first read
}

type readerSlot struct {
	block  uint64 // of its version
	reader uint64
}

// other reports whether somebody else has read a block, and remembers the reader.
func (r *readers) other(v engine.Version, reader uint64) bool {
	if r.slots == nil {
		r.slots = make([]readerSlot, readersSlots)
	}
	hash := le.Uint64(v.ID[8:]) ^ v.Position*0x9e3779b97f4a7c15 // of a SHA-256: random as it is
	s := &r.slots[le.Uint64(v.ID[:])%readersSlots]
	before := *s
	*s = readerSlot{hash, reader}
	return before.block == hash && before.reader != reader && before.reader != 0
}
