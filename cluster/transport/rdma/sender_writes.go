package rdma

import (
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

const (
	// batchBytes is how much a batch has before no block is added: what comes first can be
	// verified while the rest is on its way.
	batchBytes = 4 << 20
	// listBytes is how much a list has before it is posted, so that the device is not idle
	// while the next is made.
	listBytes = 1 << 20
)

// making is the list that a sender makes.
type making struct {
	list
	r      *asked // whose blocks they are
	writes []fabric.Write
}

// send posts what is queued until nothing is posted any more.
func (d *sender) send() {
	d.making.writes = make([]fabric.Write, 0, d.sends)
	d.probe()
	for {
		o := d.next()
		if o == nil {
			return
		}
		d.batch(o)
	}
}

func (d *sender) probe() {
	d.mu.Lock()
	var err error
	if !d.dead {
		err = d.postLocked(list{writes: 1}, []fabric.Write{{Notify: true, Immediate: probeImmediate}})
	}
	d.mu.Unlock()
	if err != nil {
		d.fail(fmt.Errorf("the probe on %s: %w", d.port.info.Name(), err))
	}
}

// batch posts a block and those of its request behind it: bytes, then a record, the last
// with an immediate.
func (d *sender) batch(o *outgoing) {
	before := uint16(noLine)
	for n := 0; o != nil; {
		if !d.data(o) {
			d.drop(o)
			return
		}
		n += int(o.wanted().size)
		var next *outgoing
		if n < batchBytes {
			next = d.follower(o.r)
		}
		if !d.record(o, before, next == nil) {
			d.drop(o)
			if next != nil {
				next.finish()
			}
			return
		}
		before, o = o.wanted().line, next
	}
	d.post(nil)
}

// data makes the writes of a block's bytes; false: its request is halted, or nothing is
// posted any more. A block whose memory is not there is missed.
func (d *sender) data(o *outgoing) bool {
	if o.r.over() {
		return false
	}
	to := aim{pieces: o.wanted().pieces}
	for _, piece := range o.pieces {
		for len(piece) > 0 {
			address, key, n := d.g.s.t.regions.source(d.port.index, piece)
			if n == 0 {
				return d.staged(o, &to)
			}
			if !d.span(o, &to, address, key, n) {
				return false
			}
			piece = piece[n:]
		}
	}
	return true
}

// aim is where the next bytes of a block go.
type aim struct {
	pieces []target
	offset uint32 // in the first piece
	done   int    // bytes before it
}

// take is the place of the next bytes, at most most of them.
func (a *aim) take(most int) target {
	p := a.pieces[0]
	p.address += uint64(a.offset)
	p.bytes = min(p.bytes-a.offset, uint32(most))
	a.done += int(p.bytes)
	if a.offset += p.bytes; a.offset == a.pieces[0].bytes {
		a.pieces, a.offset = a.pieces[1:], 0
	}
	return p
}

// span makes the writes of n bytes that lie together.
func (d *sender) span(o *outgoing, to *aim, address uint64, key uint32, n int) bool {
	for n > 0 {
		p := to.take(min(n, d.piece))
		w := fabric.Write{Source: address, SourceKey: key, Bytes: p.bytes, Target: p.address, TargetKey: p.key}
		if !d.write(o, w) {
			return false
		}
		d.g.of.pieces.Add(1)
		address += uint64(p.bytes)
		n -= int(p.bytes)
	}
	return true
}

// record makes the write of a block's record; with an immediate if it is the last of its
// batch.
func (d *sender) record(o *outgoing, before uint16, last bool) bool {
	w := o.wanted()
	m := record{
		request: o.r.number, sum: o.sum, block: uint32(o.index), generation: w.generation,
		status: o.status, before: before, bytes: w.size,
	}
	ok := d.write(o, fabric.Write{
		Inline: m.append(make([]byte, 0, recordBytes)), Bytes: recordBytes, Target: d.table + uint64(w.line)*recordBytes, TargetKey: d.tableKey,
		Notify: last, Immediate: immediateOf(w.line, w.generation),
	})
	if ok {
		d.making.blocks = append(d.making.blocks, o)
	}
	return ok
}

// write adds a write of o to the list that is being made, and waits for room for it; false:
// its request is halted, or nothing is posted any more.
func (d *sender) write(o *outgoing, w fabric.Write) bool {
	m := &d.making
	if m.bytes >= listBytes && !d.post(o) {
		return false
	}
	for {
		d.mu.Lock()
		room := d.fitsLocked(m, &w)
		for !room && len(m.writes) == 0 && !d.dead && !o.r.over() {
			d.changed.Wait()
			room = d.fitsLocked(m, &w)
		}
		d.mu.Unlock()
		if room || len(m.writes) == 0 {
			break
		}
		if !d.post(o) {
			return false
		}
	}
	if d.isDead() || o.r.over() {
		return false
	}
	m.r, m.writes = o.r, append(m.writes, w)
	m.bytes += int64(w.Bytes)
	o.listed = true
	return true
}

func (d *sender) fitsLocked(m *making, w *fabric.Write) bool {
	return d.writes+len(m.writes) < d.sends-marksAtOnce && d.bytes+m.bytes+int64(w.Bytes) <= d.g.s.t.o.PostedBytes+recordBytes
}

// post posts the list that is being made; under is the block that it is not through with
// yet, or nil. False: its request is halted, or nothing is posted any more; then the list
// is dropped.
func (d *sender) post(under *outgoing) bool {
	m := &d.making
	if len(m.writes) == 0 {
		return true
	}
	m.list.writes = len(m.writes)
	d.mu.Lock()
	halted := d.dead || m.r.over()
	var err error
	if !halted {
		err = d.postLocked(m.list, m.writes)
	}
	d.mu.Unlock()
	if halted {
		d.dropList()
		return false
	}
	for _, o := range m.blocks {
		o.posted = true
	}
	if under != nil && under.listed {
		under.posted, under.listed = true, false
	}
	m.reset()
	if err != nil {
		d.fail(fmt.Errorf("post writes on %s: %w", d.port.info.Name(), err))
	}
	return err == nil
}

func (m *making) reset() {
	clear(m.writes)
	m.list, m.r, m.writes = list{}, nil, m.writes[:0]
}

// drop lets go of the list that is being made, and of the block that it was for.
func (d *sender) drop(o *outgoing) {
	d.dropList()
	d.release(nil, o)
}

func (d *sender) dropList() {
	m := &d.making
	d.release(m.berths, m.blocks...)
	m.reset()
}

// release lets go of berths and blocks whose writes are not posted any more: of what was
// posted in part behind all that is.
func (d *sender) release(berths []*berth, blocks ...*outgoing) {
	l := list{berths: berths}
	d.mu.Lock()
	var last *list
	if n := len(d.posted); n > 0 {
		last = &d.posted[n-1]
		last.berths = append(last.berths, berths...)
		l.berths = nil
	}
	for _, o := range blocks {
		if o.posted && last != nil {
			last.blocks = append(last.blocks, o)
		} else {
			l.blocks = append(l.blocks, o)
		}
	}
	d.mu.Unlock()
	l.letGo()
}
