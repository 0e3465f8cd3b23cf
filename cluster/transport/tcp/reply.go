package tcp

import (
	"fmt"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// reply is what a handler of a Fetch answers through.
type reply struct {
	r     *request
	sizes []uint32 // that the peer has room for

	mu       sync.Mutex
	answered []bool
	blocks   []*memory // that are queued
	closed   bool      // nothing is queued any more
}

func newReply(r *request, sizes []uint32) *reply {
	return &reply{r: r, sizes: sizes, answered: make([]bool, len(sizes))}
}

// Block implements transport.Reply.
func (o *reply) Block(i int, pieces [][]byte, checksum uint64, done func()) {
	if uint64(sizeOf(pieces)) != uint64(o.sizes[i]) {
		o.None(i, transport.Miss)
		done()
		return
	}
	if !o.answer(i) {
		done()
		return
	}
	m := &memory{pieces: pieces, freed: func(int) {
		done()
		o.r.sent()
	}}
	o.r.g.mu.Lock()
	o.r.sending++
	o.r.g.mu.Unlock()
	o.mu.Lock()
	closed := o.closed
	o.blocks = append(o.blocks, m)
	o.mu.Unlock()
	if closed || !o.r.g.blocks.add(&item{m: m, h: header{
		Type: typeData, Call: o.r.h.Call, Index: uint32(i), Total: o.sizes[i], Extra: checksum,
	}}) {
		m.close()
	}
}

// None implements transport.Reply.
func (o *reply) None(i int, s transport.Status) {
	if s != transport.Miss && s != transport.Refused {
		panic(fmt.Sprintf("block %d: there is none, with status %d", i, s))
	}
	if o.answer(i) {
		o.r.g.calls.add(&item{h: header{Type: typeNone, Code: uint8(s), Call: o.r.h.Call, Index: uint32(i)}})
	}
}

// answer notes that block i is; false if nobody wants to hear of it.
func (o *reply) answer(i int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	if o.answered[i] {
		panic(fmt.Sprintf("block %d is answered twice", i))
	}
	o.answered[i] = true
	return true
}

// finish is called when the handler is over: what it left out is missed. If it failed
// nothing more is sent.
func (o *reply) finish(failed bool) {
	if failed {
		o.close()
		return
	}
	for i := range o.answered {
		o.mu.Lock()
		open := !o.closed && !o.answered[i]
		o.mu.Unlock()
		if open {
			o.None(i, transport.Miss)
		}
	}
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
}

// close lets go of all memory, without waiting, and sends nothing any more.
func (o *reply) close() {
	o.mu.Lock()
	o.closed = true
	blocks := o.blocks
	o.blocks = nil
	o.mu.Unlock()
	o.r.g.blocks.drop(o.r.h.Call)
	for _, m := range blocks {
		m.close()
	}
}
