package pool

import (
	"testing"
	"time"
)

// TestUpgrade brings a pool from one version of the peers' protocol to the next, node by
// node, under load: first to a program that speaks both, then to one that speaks the next
// alone. One that speaks only the next is turned away before that.
func TestUpgrade(t *testing.T) {
	r := newRig(t, 4, "")
	n := r.nodes
	const both, next = "peerboth", "peernext"
	r.start(n[:3]...)
	l := r.newLoad("pool")
	for _, n := range n[:3] {
		l.run(n, 1)
	}
	n[3].tag = next
	n[3].start()
	time.Sleep(5 * time.Second)
	for _, n := range n[:3] {
		if usable, err := n.peers(); err != nil || usable["n3"] {
			t.Errorf("%s uses a node that it has no version in common with (%v)", n.name, err)
		}
	}
	n[3].kill()
	for _, tag := range []string{both, next} {
		here.program(t, tag)
		for _, one := range n[:3] {
			one.stop()
			one.tag = tag
			one.start()
			r.together(n[:3]...)
		}
	}
	n[3].start()
	r.together(n...)
	l.end()
	time.Sleep(settleTime)
	l.sweep(n)
	if l.hits.Load() == 0 {
		t.Error("the load was too tame")
	}
}
