package sim

import (
	"io"
	"io/fs"

	"github.com/spillway-kv/spillway/engine/device"
)

// stepLocked moves the bytes of p, up to where its fault lets it stop and be
// continued: then more is true. It fills in N and Err.
func (d *Disk) stepLocked(p *pending) (more bool) {
	switch p.op.Kind {
	case device.Read:
		more = d.readLocked(p)
	case device.Write:
		more = d.writeLocked(p)
	case device.Sync:
		d.syncLocked(p)
	case device.Punch:
		d.punchLocked(p)
	}
	p.over = !more
	return more
}

func (d *Disk) readLocked(p *pending) (more bool) {
	op, start := p.op, p.op.N
	readable := int(min(int64(p.total), max(0, p.ino.size-p.offset)))
	stop, err := p.total, error(nil)
	switch {
	case p.fault == rot && readable > 0:
		p.ino.flipBit(p.offset+p.rng.Int64N(int64(readable)), uint(p.rng.IntN(8)))
		d.counts.BitRot++
	case p.stopAt >= readable: // the file ends before the fault
	case p.fault == eio:
		stop, err = p.stopAt, p.ioError("read")
		d.counts.ReadEIO++
	case p.fault == truncated:
		stop, err = p.stopAt, io.ErrUnexpectedEOF
		d.counts.TruncatedRead++
	case p.fault == short && start == 0:
		stop, more = p.stopAt, true
		d.counts.ShortRead++
	}
	if stop > readable {
		stop, err = max(start, readable), io.ErrUnexpectedEOF
	}
	pieces(op.Bufs, start, stop, func(part []byte, at int) {
		p.ino.readAt(part, p.offset+int64(at))
	})
	op.N, op.Err = stop, err
	return more
}

func (d *Disk) writeLocked(p *pending) (more bool) {
	op, start := p.op, p.op.N
	offset, length := p.offset+int64(start), int64(p.total-start)
	if !d.fitsLocked(p.ino.roomFor(offset, length)) {
		op.Err = &fs.PathError{Op: "write", Path: p.file.name, Err: errNoSpace}
		return false
	}
	stop, err := p.total, error(nil)
	switch p.fault {
	case eio:
		stop, err = p.stopAt, p.ioError("write")
		d.counts.WriteEIO++
	case short:
		if start == 0 {
			stop, more = p.stopAt, true
			d.counts.ShortWrite++
		}
	case lost:
		d.counts.LostWrite++
	case torn:
		d.counts.TornWrite++
	case misdirected:
		d.counts.MisdirectedWrite++
	}
	if p.fault != lost && start < stop {
		d.landLocked(p, start, stop)
	}
	op.N, op.Err = stop, err
	return more
}

// landLocked stores the bytes of p from start to stop, or some sectors of them.
func (d *Disk) landLocked(p *pending, start, stop int) {
	ino, sectorBytes := p.ino, d.cfg.SectorBytes
	ino.remember(p.offset+int64(start), int64(stop-start))
	ino.size = max(ino.size, p.offset+int64(stop))
	if p.fault != torn {
		pieces(p.op.Bufs, start, stop, func(part []byte, at int) {
			ino.writeAt(part, p.offset+int64(at))
		})
		return
	}
	lands := tear(p.rng, (stop-start)/sectorBytes)
	pieces(p.op.Bufs, start, stop, func(part []byte, at int) {
		for i := 0; i < len(part); i += sectorBytes {
			if lands((at + i) / sectorBytes) {
				ino.writeAt(part[i:i+sectorBytes], p.offset+int64(at+i))
			}
		}
	})
}

func (d *Disk) syncLocked(p *pending) {
	if p.fault != eio {
		p.ino.synced(p.mark)
		return
	}
	d.counts.SyncEIO++
	p.op.Err = p.ioError("sync")
	if p.rng.IntN(2) == 0 {
		covered := p.ino.covered(p.mark)
		p.ino.revert(newCut(p.rng), covered, d.cfg.SectorBytes)
		p.ino.dropUndo(covered)
	}
}

func (d *Disk) punchLocked(p *pending) {
	if p.fault == eio {
		d.counts.WriteEIO++
		p.op.Err = p.ioError("punch")
		return
	}
	if length := min(p.op.LengthBytes, p.ino.size-p.offset); length > 0 {
		p.ino.punch(p.offset, length)
	}
}

func (p *pending) ioError(op string) error {
	return &fs.PathError{Op: op, Path: p.file.name, Err: errIO}
}

// pieces calls move for each part of bufs that lies between the bytes start
// and stop of their sum; at is where the part begins.
func pieces(bufs [][]byte, start, stop int, move func(part []byte, at int)) {
	at := 0
	for _, b := range bufs {
		from, to := max(start, at), min(stop, at+len(b))
		if from < to {
			move(b[from-at:to-at], from)
		}
		at += len(b)
	}
}
