package target

import (
	"context"

	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/payload"
)

// null answers at once.
type null struct {
	spaceBytes int64
	depth      int
}

// nullSpaceBytes is the range of a null target without a size.
const nullSpaceBytes = 1 << 40

func openNull(_ context.Context, _ *Set, j *job.Job) (Target, error) {
	n := &null{j.Size.Bytes, j.IODepth}
	if n.spaceBytes == 0 {
		n.spaceBytes = nullSpaceBytes
	}
	return n, nil
}

// Facts implements Target.
func (n *null) Facts() Facts { return Facts{Engine: job.EngineNull.String()} }

// Lane implements Target.
func (n *null) Lane(int) (Lane, error) {
	return &nullLane{spaceBytes: n.spaceBytes, depth: n.depth}, nil
}

// Close implements Target.
func (n *null) Close() error { return nil }

type nullLane struct {
	spaceBytes int64
	depth      int
	memory     memory
}

// DepthMax implements Lane.
func (l *nullLane) DepthMax() int { return l.depth }

// SpaceBytes implements Lane.
func (l *nullLane) SpaceBytes() int64 { return l.spaceBytes }

// NewIO implements Lane.
func (l *nullLane) NewIO(maxBytes int, ended func(*IO)) (*IO, error) {
	b, err := l.memory.take(maxBytes, nil)
	return &IO{memory: b, ended: ended}, err
}

// Identity implements Lane.
func (l *nullLane) Identity(op *load.Op) payload.Identity {
	return payload.Of(op.Namespace, op.Bytes, op.Block)
}

// Submit implements Lane.
func (l *nullLane) Submit(ios []*IO) {
	for _, io := range ios {
		io.end(load.OK, nil)
	}
}

// Close implements Lane.
func (l *nullLane) Close() error {
	l.memory.free()
	return nil
}
