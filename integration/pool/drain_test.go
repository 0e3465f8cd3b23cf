package pool

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDrain drains a node under load that deletes all the while, and stops it: what it had
// is found at the others, what was deleted while it moved is not.
func TestDrain(t *testing.T) {
	r := newRig(t, 4, `drain_rate = "8MiB"`)
	n := r.nodes
	r.start(n...)
	l := r.newLoad("pool")
	w := l.worker(n[0], 1)
	for range 60 {
		w.put(l.add())
	}
	for _, n := range n[:3] {
		l.run(n, 1)
	}
	done := make(chan error, 1)
	go func() {
		_, err := n[3].command("pool", "drain")
		done <- err
	}()
	deletes := l.worker(n[1], 2)
	for i := 0; i < 60; i += 3 {
		deletes.delete(l.chains[i])
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the drain does not end")
	}
	l.end()
	n[3].stop()
	rest := n[:3]
	r.eventually("it is a member no more", func() error {
		for _, n := range rest {
			seen, err := n.members()
			if err != nil {
				return err
			}
			if s, still := seen["n3"]; still && !strings.HasPrefix(s, "left ") { // its last state may not have been heard before its farewell
				return fmt.Errorf("%s sees it as %s", n.name, s)
			}
		}
		return nil
	})
	for i := 1; i < 60; i++ {
		if c := l.chains[i]; !c.deleting.Load() {
			if hits := w.get(c, 10*time.Second); hits != chainBlocks {
				t.Errorf("chain %d, which was stored before: %d of %d blocks are found", i, hits, chainBlocks)
			}
		}
	}
	w.c.Close()
	deletes.c.Close()
	time.Sleep(settleTime)
	l.sweep(rest)
}
