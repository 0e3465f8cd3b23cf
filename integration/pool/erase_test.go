package pool

import (
	"context"
	"testing"
	"time"
)

// TestDropWhileAway: a namespace that is dropped while a node is away is empty on it when
// it is back.
func TestDropWhileAway(t *testing.T) {
	r := newRig(t, 3, "")
	n := r.nodes
	r.start(n...)
	l := r.newLoad("dropped")
	w := []*worker{l.worker(n[0], 1), l.worker(n[1], 2), l.worker(n[2], 3)}
	for i := range 30 {
		w[i%3].put(l.add())
	}
	before := 0
	for _, c := range l.chains {
		before += w[2].get(c, 10*time.Second)
	}
	if before == 0 {
		t.Fatal("nothing was stored")
	}
	n[2].kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w[0].ns.Drop(ctx); err != nil {
		t.Fatal(err)
	}
	n[2].start()
	r.together(n...)
	again := l.worker(n[2], 4)
	for _, w := range []*worker{w[0], w[1], again} {
		for _, c := range l.chains {
			if hits := w.get(c, 10*time.Second); hits > 0 {
				t.Errorf("%s: %d blocks of chain %d are back", w.n.name, hits, c.number)
			}
		}
	}
	c := l.add()
	again.put(c)
	if hits := w[0].get(c, 10*time.Second); hits != chainBlocks {
		t.Errorf("%d blocks of a chain put after the drop are found", hits)
	}
	for _, w := range append(w, again) {
		w.c.Close()
	}
}

// TestLocalReads: what is on a node is read as quickly as ever while no other node answers.
func TestLocalReads(t *testing.T) {
	r := newRig(t, 3, `placement = "local"`)
	n := r.nodes
	r.start(n...)
	l := r.newLoad("local")
	w := l.worker(n[0], 1)
	defer w.c.Close()
	for range 20 {
		w.put(l.add())
	}
	read := func() (hits int) {
		for range 5 {
			for _, c := range l.chains {
				hits += w.get(c, 200*time.Millisecond)
			}
		}
		return hits
	}
	const all = 5 * 20 * chainBlocks
	before := read()
	n[1].freeze()
	n[2].freeze()
	during := read()
	n[1].thaw()
	n[2].thaw()
	t.Logf("%d of %d blocks in time before, %d while both peers are frozen", before, all, during)
	if before < all*9/10 || during < all*9/10 {
		t.Errorf("%d and %d blocks of %d were read within 200ms", before, during, all)
	}
	r.together(n...)
}
