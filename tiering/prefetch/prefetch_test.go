package prefetch

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

const block = 1000

// chainKeys are those of n blocks of a sequence.
func chainKeys(sequence string, from, n int) (keys [][]byte) {
	for i := range n {
		keys = append(keys, fmt.Appendf(nil, "%s/%d", sequence, from+i))
	}
	return keys
}

func seen(kind Kind, now time.Duration, depth int, keys ...[]byte) Seen {
	return Seen{Kind: kind, Space: 1, Group: 2, Reader: 3, Keys: keys, Depth: depth, BlockBytes: block, Now: now}
}

func names(wants []Want) (all []string) {
	for _, w := range wants {
		for i, k := range w.Keys {
			all = append(all, fmt.Sprintf("%s@%d", k, w.Depth+i))
		}
	}
	return all
}

func want(t *testing.T, what string, got []Want, keys [][]byte, depth int) {
	t.Helper()
	if all := names([]Want{{Keys: keys, Depth: depth}}); !slices.Equal(names(got), all) {
		t.Errorf("%s: wants %v, not %v", what, names(got), all)
	}
}

// TestWindow: what is behind the blocks that are read, along the likeliest way.
func TestWindow(t *testing.T) {
	w := NewWindow(3, 0)
	a, b := chainKeys("a", 0, 8), chainKeys("b", 0, 8)
	fork := append(slices.Clone(a[:4]), b[4:]...)
	w.Saw(seen(Stored, 0, 0, a...))
	want(t, "first read", w.Saw(seen(Read, 1, 0, a[:2]...)), a[2:5], 2)
	want(t, "the end", w.Saw(seen(Read, 2, 0, a[6:]...)), nil, 0)
	want(t, "near the end", w.Saw(seen(Read, 3, 0, a[5:7]...)), a[7:], 7)
	plan := w.Saw(seen(Read, 4, 0, a[:4]...))[0].Plan
	if !plan.Stands() {
		t.Error("a plan ended before anything was wrong")
	}
	w.Saw(seen(Read, 5, 0, a[:5]...)) // goes on as expected
	if !plan.Stands() {
		t.Error("a plan ended that was right")
	}
	w.Saw(seen(Asked, 6, 0, fork...)) // goes elsewhere
	if plan.Stands() {
		t.Error("a plan stands that was wrong")
	}
	for range 4 {
		w.Saw(seen(Read, 7, 0, fork...))
	}
	want(t, "the likelier way", w.Saw(seen(Read, 8, 0, a[:4]...)), b[4:7], 4)
	if got := w.Saw(seen(Read, 9, 0, chainKeys("unknown", 0, 2)...)); len(got) != 0 {
		t.Errorf("wants %v behind what nobody has seen", names(got))
	}
	if got := w.Saw(seen(Stored, 10, 0, a[:2]...)); len(got) != 0 {
		t.Errorf("wants %v after a store", names(got))
	}
}

// TestStoresGoOn: a client that stores behind what it has read makes the chain longer,
// though it does not say which.
func TestStoresGoOn(t *testing.T) {
	w := NewWindow(4, 0)
	a := chainKeys("a", 0, 8)
	w.Saw(seen(Stored, 0, 0, a[:3]...))
	w.Saw(seen(Read, 1, 0, a[:3]...))
	w.Saw(seen(Stored, 2, 3, a[3:5]...))
	w.Saw(seen(Stored, 3, 5, a[5:]...))
	want(t, "from the middle", w.Saw(seen(Read, 4, 0, a[:3]...)), a[3:7], 3)
	other := seen(Stored, 5, 8, []byte("elsewhere"))
	other.Reader = 4 // has nothing to do with it
	w.Saw(other)
	want(t, "at the end", w.Saw(seen(Read, 6, 0, a[:7]...)), a[7:], 7)
}

// TestModelLearnsWhen: chains of two kinds, of which one comes back after a short wait
// and the other never does after its second turn. What comes back is fetched before it does,
// the others make room for it.
func TestModelLearnsWhen(t *testing.T) {
	m := NewModel(0)
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.Duration(0)
	type session struct {
		name  string
		at    time.Duration
		turns int
	}
	var all []session
	inMemory := map[string]bool{}
	reads, ahead := 0, 0
	for step := range 4000 {
		now += time.Second
		if step%10 == 0 {
			all = append(all, session{fmt.Sprintf("s%d", step), now, 0})
		}
		var left []session
		for _, s := range all {
			if s.at > now {
				left = append(left, s)
				continue
			}
			keys := chainKeys(s.name, 0, 4)
			if s.turns > 0 {
				m.Saw(seen(Read, now, 0, keys...))
				if step > 2000 {
					reads++
					if inMemory[s.name] {
						ahead++
					}
				}
			} else {
				m.Saw(seen(Stored, now, 0, keys...))
			}
			delete(inMemory, s.name)
			if s.turns++; s.turns < 2 && rng.IntN(2) == 0 || s.turns > 2 {
				continue // never again
			}
			s.at = now + time.Duration(20+rng.IntN(10))*time.Second
			left = append(left, s)
		}
		all = left
		wants, spent := m.Tick(now, 4*4*block, 100*block) // four chains
		for _, w := range spent {
			delete(inMemory, string(w.Keys[0][:len(w.Keys[0])-2]))
		}
		for _, w := range wants {
			if w.Plan.Stands() {
				inMemory[string(w.Keys[0][:len(w.Keys[0])-2])] = true
			}
		}
		if len(inMemory) > 5 {
			t.Fatalf("step %d: %d chains in memory, room for 4", step, len(inMemory))
		}
	}
	t.Logf("%d of %d reads were foreseen", ahead, reads)
	if ahead*10 < reads*8 {
		t.Errorf("%d of %d reads were foreseen, want eight tenths", ahead, reads)
	}
}

// TestModelFetchesWhatIsRead: a chain's beginning that clients never ask for is left out
// once that is learned; a chain in the middle of its turn is left alone; a return
// ends the plan.
func TestModelFetchesWhatIsRead(t *testing.T) {
	m := NewModel(0)
	now := time.Duration(0)
	for i := range 200 {
		keys := chainKeys(fmt.Sprint("c", i), 0, 10)
		m.Saw(seen(Stored, now, 0, keys...))
		now += 10 * time.Second
		m.Saw(seen(Read, now, 0, keys[5:]...))
		now += time.Second
	}
	if m.skip < 0.4 || m.skip > 0.6 {
		t.Errorf("the part not read is %.2f, want half", m.skip)
	}
	keys := chainKeys("new", 0, 10)
	m.Saw(seen(Stored, now, 0, keys...))
	if wants, _ := m.Tick(now, 10000*block, 10000*block); slices.Contains(names(wants), "new/9@9") {
		t.Error("fetched in the middle of a turn")
	}
	now += time.Second
	wants, _ := m.Tick(now, 10000*block, 10000*block)
	got := names(wants)
	if slices.Contains(got, "new/0@0") || !slices.Contains(got, "new/9@9") {
		t.Errorf("wants %v", got)
	}
	i := slices.IndexFunc(wants, func(w Want) bool { return string(w.Keys[len(w.Keys)-1]) == "new/9" })
	if i < 0 || !wants[i].Plan.Stands() {
		t.Fatal("no plan")
	}
	if again, _ := m.Tick(now+time.Second, 10000*block, 10000*block); slices.Contains(names(again), "new/9@9") {
		t.Error("asked for the same again at once")
	}
	if again, _ := m.Tick(now+2*again, 10000*block, 10000*block); !slices.Contains(names(again), "new/9@9") {
		t.Error("never asked for again")
	}
	m.Saw(seen(Read, now+3*again, 0, keys[5:]...))
	if wants[i].Plan.Stands() {
		t.Error("the plan stands though the chain has come back")
	}
}

// TestBounded: whatever is told, no more is remembered than the bound, and what is left
// is consistent.
func TestBounded(t *testing.T) {
	const most = 500
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 5))
		m := NewModel(most)
		for step := range 600 {
			n := 1 + rng.IntN(40)
			keys := chainKeys(fmt.Sprint("x", rng.IntN(200)), rng.IntN(5), n)
			if rng.IntN(3) == 0 { // hostile: in no order, and again and again
				rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
				keys = append(keys, keys[:rng.IntN(len(keys))]...)
			}
			m.Saw(seen(Kind(rng.IntN(3)), time.Duration(step)*time.Second, rng.IntN(50), keys...))
			m.Tick(time.Duration(step)*time.Second, int64(rng.IntN(300))*block, int64(rng.IntN(50))*block)
			if step%20 == 0 {
				checkTree(t, m.tree, most+len(keys))
			}
		}
	}
	if got := NewModel(10).Saw(seen(Read, 0, 0, chainKeys("long", 0, 11)...)); got != nil {
		t.Errorf("wants %v of what cannot be remembered", names(got))
	}
}

func checkTree(t *testing.T, tree *tree, most int) {
	t.Helper()
	if len(tree.nodes) > most {
		t.Fatalf("%d blocks remembered, at most %d", len(tree.nodes), most)
	}
	children, chains := map[*node]int32{}, 0
	for id, n := range tree.nodes {
		if n.id != id {
			t.Fatal("a block under another's name")
		}
		if n.parent != nil {
			children[n.parent]++
			if tree.nodes[n.parent.id] != n.parent {
				t.Fatal("a block behind one that is forgotten")
			}
		}
		if n.next != nil && (n.next.parent != n || tree.nodes[n.next.id] != n.next) {
			t.Fatal("what follows is not a child, or forgotten")
		}
		if n.chain != nil {
			chains++
			if n.chain.tail != n || n.chain.forgotten {
				t.Fatal("a chain that ends elsewhere")
			}
		}
	}
	for _, n := range tree.nodes {
		if n.children != children[n] || n.children == 0 && n.chain == nil {
			t.Fatalf("%d children counted, %d there; a leaf without a chain: %v", n.children, children[n], n.chain == nil)
		}
	}
	for c := tree.ends.younger; c != &tree.ends; c = c.younger {
		chains--
	}
	if chains != 0 {
		t.Fatalf("%d chains are not in the list", chains)
	}
}

func BenchmarkSaw(b *testing.B) {
	m := NewModel(0)
	keys := chainKeys("benchmark", 0, 1000)
	for b.Loop() {
		m.Saw(seen(Asked, 0, 0, keys...))
	}
}

// TestKeysAreCopied: what is remembered of a request is the keys that are new, not the
// memory that all its keys share: each turn of a long chat names the whole of it again.
func TestKeysAreCopied(t *testing.T) {
	const turns, prefix, keyBytes = 200, 1000, 64
	for _, p := range []Predictor{NewWindow(0, 0), NewModel(0)} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for turn := range turns {
			shared := make([]byte, (prefix+turn)*keyBytes)
			var keys [][]byte
			for i := range prefix + turn {
				key := shared[i*keyBytes : (i+1)*keyBytes]
				copy(key, fmt.Sprint(i))
				keys = append(keys, key)
			}
			p.Saw(seen(Asked, time.Duration(turn), 0, keys...))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(p)
		kept, given := int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(turns*prefix*keyBytes)
		if kept > given/4 {
			t.Errorf("%s: %d bytes kept of %d blocks", p.Name(), kept, prefix+turns)
		}
	}
}
