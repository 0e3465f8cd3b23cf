package target

import (
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/payload"
)

// submitter is what a deviceLane needs of a device.
type submitter interface{ Submit([]*device.Op) }

// deviceLane drives files of a device by offset.
type deviceLane struct {
	part    rangeOf
	depth   int // I/Os in flight at most
	files   []device.File
	devices []submitter // of each file
	closers []func() error
	// lone carries an I/O out while the worker waits; nil: Submit does all.
	lone  func(*device.Op)
	lones []func(*device.Op) // of each file, in place of lone

	register func([]byte) (func(), error)
	memory   memory
	ops      []*device.Op
}

// deviceIO is a deviceLane's part of an IO.
type deviceIO struct {
	op   device.Op
	bufs [1][]byte
	file int
}

// NewDevice makes a target of a file of any device, for tests of what drives
// targets. Close leaves both open.
func NewDevice(d device.Device, f device.File, depth int) Target {
	return &deviceTarget{d, f, depth}
}

type deviceTarget struct {
	d     device.Device
	f     device.File
	depth int
}

// Facts implements Target.
func (t *deviceTarget) Facts() Facts {
	f := t.d.Facts()
	return Facts{Engine: "device", Path: t.f.Name(), Device: f.Device, FileSystem: f.FileSystem, Direct: f.Direct, Notes: f.Notes}
}

// Lane implements Target.
func (t *deviceTarget) Lane(int) (Lane, error) {
	n := t.f.SizeBytes()
	return &deviceLane{part: rangeOf{partBytes: n, spaceBytes: n}, depth: t.depth, memory: memory{ios: t.depth},
		files: []device.File{t.f}, devices: []submitter{t.d}}, nil
}

// Close implements Target.
func (t *deviceTarget) Close() error { return nil }

// DepthMax implements Lane.
func (l *deviceLane) DepthMax() int { return l.depth }

// SpaceBytes implements Lane.
func (l *deviceLane) SpaceBytes() int64 { return l.part.spaceBytes }

// NewIO implements Lane.
func (l *deviceLane) NewIO(maxBytes int, ended func(*IO)) (*IO, error) {
	b, err := l.memory.take(maxBytes, l.register)
	if err != nil {
		return nil, err
	}
	io, st := &IO{memory: b, ended: ended}, &deviceIO{}
	io.state = st
	st.op.Bufs = st.bufs[:]
	st.op.Done = func(op *device.Op) {
		io.Outcome, io.Err = outcomeOf(op.Err)
		io.StartedAt, io.EndedAt = op.StartedAt, op.DoneAt
		if io.EndedAt.IsZero() {
			io.end(io.Outcome, io.Err) // it never got to the drive
			return
		}
		io.ended(io)
	}
	return io, nil
}

func outcomeOf(err error) (load.Outcome, error) {
	switch {
	case err == nil:
		return load.OK, nil
	case errors.Is(err, device.ErrQueueFull):
		return load.Busy, err
	default:
		return load.Failed, err
	}
}

// Identity implements Lane.
func (l *deviceLane) Identity(op *load.Op) payload.Identity {
	return payload.At(l.part.offset + op.Offset%l.part.partBytes)
}

// Submit implements Lane.
func (l *deviceLane) Submit(ios []*IO) {
	l.ops = l.ops[:0]
	for _, io := range ios {
		st := io.state.(*deviceIO)
		if !l.place(io, st) {
			io.end(load.Failed, fmt.Errorf("%d bytes at %d lie outside the range of %d bytes", io.Bytes, io.Offset, l.part.spaceBytes))
			continue
		}
		l.ops = append(l.ops, &st.op)
	}
	switch {
	case l.lones != nil:
		for _, io := range ios {
			if st := io.state.(*deviceIO); st.op.File != nil {
				l.lones[st.file](&st.op)
			}
		}
	case l.lone != nil:
		for _, op := range l.ops {
			l.lone(op)
		}
	case len(l.devices) == 1:
		if len(l.ops) > 0 {
			l.devices[0].Submit(l.ops)
		}
	default:
		l.submitEach(ios)
	}
}

// submitEach hands every run of ops on one file over in one call.
func (l *deviceLane) submitEach(ios []*IO) {
	l.ops = l.ops[:0]
	at := 0
	flush := func() {
		if len(l.ops) > 0 {
			l.devices[at].Submit(l.ops)
			l.ops = l.ops[:0]
		}
	}
	for _, io := range ios {
		st := io.state.(*deviceIO)
		if st.op.File == nil {
			continue
		}
		if st.file != at {
			flush()
			at = st.file
		}
		l.ops = append(l.ops, &st.op)
	}
	flush()
}

// place fills in the device's op.
func (l *deviceLane) place(io *IO, st *deviceIO) bool {
	st.op.File = nil
	if io.Offset < 0 || io.Offset+int64(io.Bytes) > l.part.spaceBytes {
		return false
	}
	file := io.Offset / l.part.partBytes
	within := io.Offset % l.part.partBytes
	if within+int64(io.Bytes) > l.part.partBytes {
		return false
	}
	st.file = int(file)
	st.bufs[0] = io.Data
	st.op.Kind = device.Read
	if io.Kind == load.Write {
		st.op.Kind = device.Write
	}
	st.op.File, st.op.Offset = l.files[file], l.part.offset+within
	return true
}

// Close implements Lane.
func (l *deviceLane) Close() error {
	var all error
	l.memory.unregister()
	for _, c := range l.closers {
		all = errors.Join(all, c())
	}
	l.memory.free()
	return all
}
