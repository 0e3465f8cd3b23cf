package pool

import (
	"fmt"
	"testing"
	"time"
)

// cutTime is how long networks stay cut.
func cutTime() time.Duration {
	if long {
		return 3 * time.Minute
	}
	return 8 * time.Second
}

// settleTime is more than nodes take to compare what was erased.
const settleTime = 8 * time.Second

// TestPool puts one pool through everything, under load.
func TestPool(t *testing.T) {
	r := newRig(t, 5, "")
	n := r.nodes
	r.start(n[:3]...)
	l := r.newLoad("pool")
	for _, n := range n {
		l.run(n, 2)
	}
	t.Log("two nodes join")
	n[3].start()
	n[4].start()
	r.together(n...)

	t.Log("a node is frozen")
	n[2].freeze()
	time.Sleep(5 * time.Second)
	n[2].thaw()
	r.together(n...)

	t.Log("a node is killed")
	n[3].kill()
	r.eventually("the others see it", func() error {
		for _, n := range r.without(n[3]) {
			seen, err := n.members()
			if err != nil {
				return err
			}
			if s := seen["n3"]; s == "alive active" {
				return fmt.Errorf("%s sees it as %s", n.name, s)
			}
		}
		return nil
	})
	n[3].start()
	r.together(n...)

	t.Log("one way is cut")
	here.cut(n[0], n[1])
	time.Sleep(cutTime())
	here.heal(n[0], n[1])
	r.together(n...)

	t.Log("the pool is cut in two")
	for _, a := range n[:2] {
		for _, b := range n[2:] {
			here.cut(a, b)
			here.cut(b, a)
		}
	}
	time.Sleep(cutTime())
	for _, a := range n[:2] {
		for _, b := range n[2:] {
			here.heal(a, b)
			here.heal(b, a)
		}
	}
	r.together(n...)

	t.Log("a node restarts in order")
	n[1].stop()
	n[1].start()
	r.together(n...)

	r.travel(1, n...)
	l.end()
	r.travelled(n...)
	time.Sleep(settleTime)
	l.sweep(n)
	if l.hits.Load() == 0 || l.deleted.Load() == 0 || l.stored.Load() == 0 {
		t.Error("the load was too tame")
	}
}
