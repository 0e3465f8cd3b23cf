package device

import (
	"slices"
	"testing"
	"time"
)

// TestTurns: what goes first does, each kind in its order, and a read that nobody
// wants any more is told from others.
func TestTurns(t *testing.T) {
	now := time.Now()
	ops := []*Op{{Kind: Read, N: 0}, {Kind: Write, N: 1}, {Kind: Sync, N: 2}, {Kind: Write, First: true, N: 3}, {Kind: Read, N: 4}, {Kind: Sync, N: 5}}
	var q turns
	for _, op := range ops[:3] {
		q.push(op)
	}
	var more fifo
	for _, op := range ops[3:] {
		more.push(op)
	}
	q.take(&more)
	var order []int
	for op := q.pop(); op != nil; op = q.pop() {
		order = append(order, op.N)
	}
	if want := []int{2, 3, 5, 0, 1, 4}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	for _, c := range []struct {
		op   Op
		want bool
	}{
		{Op{Kind: Read}, false},
		{Op{Kind: Read, Until: now.Add(time.Second)}, false},
		{Op{Kind: Read, Until: now.Add(-time.Second)}, true},
		{Op{Kind: Write, Until: now.Add(-time.Second)}, false}, // its bytes are wanted all the same
	} {
		if c.op.late(now) != c.want {
			t.Errorf("%+v: late %v", c.op, !c.want)
		}
	}
}
