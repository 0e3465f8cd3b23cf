package rdma

import (
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// listBytes is how much a list has before it is posted, so that the device is not idle
// while the next is made.
const listBytes = 1 << 20

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
		w, o := d.next()
		if w == nil {
			return
		}
		d.done(w, d.batch(w, o))
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

// batch posts a block and those of its request behind it that the turn has room for: bytes,
// then a record, the last with an immediate. Of a block that is larger than a turn it posts
// a part, and gives it back, unless it has posted the rest.
func (d *sender) batch(w *waiting, o *outgoing) (rest *outgoing) {
	before, left := uint16(noLine), d.turn
	for o != nil {
		n := o.left()
		if !d.data(o, left) {
			d.drop(o)
			return nil
		}
		if o.left() > 0 { // it is the first one, nothing has a record yet
			if !d.post(o) {
				d.drop(o)
				return nil
			}
			return o
		}
		left -= n
		next := d.follower(w, left)
		if !d.record(o, before, next == nil) {
			d.drop(o)
			if next != nil {
				next.finish()
			}
			return nil
		}
		before, o = o.wanted().line, next
	}
	d.post(nil)
	return nil
}

// data makes the writes of a block's next bytes, at most most of them; false: its request is
// halted, or nothing is posted any more. A block whose memory is not there is missed.
func (d *sender) data(o *outgoing, most int) bool {
	if o.r.over() {
		return false
	}
	for most > 0 && o.left() > 0 {
		piece := o.piece()
		address, key, n := d.g.s.t.regions.source(d.port.index, piece)
		n = min(n, most)
		if n == 0 {
			n = min(most, o.left(), landingUnitBytes)
			if !d.staged(o, n) {
				return false
			}
		} else if !d.span(o, address, key, n) {
			return false
		}
		most -= n
	}
	return true
}

// aim is how far a block is made: where its next bytes are, and where they go.
type aim struct {
	done   int // bytes before
	source int // of its pieces here
	within int // that piece
	target int // of its pieces there
	into   int // that piece
}

// left is how many bytes of a block are not made yet.
func (o *outgoing) left() int {
	if o.status != transport.Done {
		return 0
	}
	return int(o.wanted().size) - o.aim.done
}

// piece is what lies together of the next bytes of a block, of which there are some.
func (o *outgoing) piece() []byte {
	a := &o.aim
	for a.within == len(o.pieces[a.source]) {
		a.source, a.within = a.source+1, 0
	}
	return o.pieces[a.source][a.within:]
}

// take gives the place of the next bytes, at most most of them, and passes them.
func (o *outgoing) take(most int) target {
	a := &o.aim
	p := o.wanted().pieces[a.target]
	p.address += uint64(a.into)
	p.bytes = min(p.bytes-uint32(a.into), uint32(most))
	n := int(p.bytes)
	if a.into += n; a.into == int(o.wanted().pieces[a.target].bytes) {
		a.target, a.into = a.target+1, 0
	}
	for a.done += n; n > 0; {
		k := min(n, len(o.piece()))
		a.within += k
		n -= k
	}
	return p
}

// span makes the writes of n bytes that lie together.
func (d *sender) span(o *outgoing, address uint64, key uint32, n int) bool {
	for n > 0 {
		p := o.take(min(n, d.piece))
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
