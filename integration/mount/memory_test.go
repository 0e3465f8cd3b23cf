package mount

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/engine/device/sim"
	tier "github.com/spillway-kv/spillway/tiering/memory"
)

// newTier is a memory tier of so many bytes, closed when the node has ended.
func newTier(t testing.TB, o tier.Options) *tier.Tier {
	t.Helper()
	m, err := tier.New(o)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

// withMemory is a rig whose node has a memory tier.
func withMemory(t testing.TB, stores int, o tier.Options) *rig {
	r := newRig(t, stores)
	r.options.Memory = newTier(t, o)
	return r
}

// settle waits until nothing is to be fetched ahead any more.
func (r *rig) settle() {
	r.t.Helper()
	for range 2000 {
		if r.node.Stat().Prefetch.Waiting == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatal("blocks are being fetched for ever")
}

// TestPrefetchedBlocksComeFromMemory: what a client hints is read from the drive once,
// ahead, and answered without the drive.
func TestPrefetchedBlocksComeFromMemory(t *testing.T) {
	for _, stores := range []int{1, 3} {
		r := withMemory(t, stores, tier.Options{Bytes: 8 << 20, Verify: true}).start()
		c := r.dial()
		ns, p := open(t, c, "a"), newPool(t, c, 64)
		p.put(ns, 0, 64, client.Stored)
		if n := ns.Prefetch(0, keys(0, 100)); n != 64 {
			t.Fatalf("%d blocks begun, want those 64 that are here", n)
		}
		r.settle()
		if n := ns.Prefetch(0, keys(0, 64)); n != 0 {
			t.Errorf("%d blocks begun that are in memory", n)
		}
		before := r.node.Stat()
		p.get(ns, 0, 64, client.Hit)
		after := r.node.Stat()
		for i := range after.Stores {
			if n := after.Stores[i].Counters.ReadBytes - before.Stores[i].Counters.ReadBytes; n != 0 {
				t.Errorf("the drive gave %d bytes", n)
			}
		}
		m := after.Memory
		if m.Hits != 64 || m.AheadAdded != 64 || m.AheadUsed != 64 || m.Precision != 1 || m.Coverage != 1 || m.HitBytes != 64*blockBytes {
			t.Errorf("%+v", *m)
		}
		if got := after.Spaces[0].Hits; got != 64 {
			t.Errorf("%d hits", got)
		}
	}
}

// TestMemoryModes: inclusive keeps what is read; exclusive what two clients read.
func TestMemoryModes(t *testing.T) {
	for _, mode := range []tier.Mode{tier.Inclusive, tier.Exclusive} {
		r := withMemory(t, 1, tier.Options{Bytes: 8 << 20, Mode: mode}).start()
		one, two := r.dial(), r.dial()
		nsOne, nsTwo := open(t, one, "a"), open(t, two, "a")
		pOne, pTwo := newPool(t, one, 16), newPool(t, two, 16)
		pOne.put(nsOne, 0, 16, client.Stored)
		wantHits := func(what string, want uint64) {
			t.Helper()
			if got := r.node.Stat().Memory.Hits; got != want {
				t.Errorf("%s, %s: %d hits in memory, want %d", mode, what, got, want)
			}
		}
		pOne.get(nsOne, 0, 16, client.Hit)
		wantHits("first read", 0)
		pOne.get(nsOne, 0, 16, client.Hit)
		if mode == tier.Inclusive {
			wantHits("second read of the same client", 16)
			continue
		}
		wantHits("second read of the same client", 0)
		pTwo.get(nsTwo, 0, 16, client.Hit) // read through memory
		wantHits("first read of another client", 0)
		pOne.get(nsOne, 0, 16, client.Hit)
		pTwo.get(nsTwo, 0, 16, client.Hit)
		wantHits("later reads", 32)
	}
}

// TestMemoryForgets: a block that was deleted or dropped is not answered from memory,
// and a put after that is answered with its own bytes.
func TestMemoryForgets(t *testing.T) {
	r := withMemory(t, 1, tier.Options{Bytes: 8 << 20, Mode: tier.Inclusive}).start()
	c := r.dial()
	ns, p := open(t, c, "a"), newPool(t, c, 16)
	p.put(ns, 0, 16, client.Stored)
	p.get(ns, 0, 16, client.Hit)
	p.get(ns, 0, 16, client.Hit)
	if n, err := ns.Delete(context.Background(), 0, keys(0, 8)); n != 8 || err != nil {
		t.Fatal(n, err)
	}
	p.get(ns, 0, 8, client.Miss)
	p.get(ns, 8, 8, client.Hit)
	for i := range 8 { // other bytes under the same keys
		p.fill(i, 1000+i)
	}
	wantAll(t, ns.Put(p.blocks(0, 8), client.PutOptions{}).Wait(), client.Stored)
	for range 2 {
		clear(p.r.Bytes())
		wantAll(t, ns.Get(p.blocks(0, 8), client.GetOptions{}).Wait(), client.Hit)
		for i := range 8 {
			if !p.holds(i, 1000+i) {
				t.Fatalf("block %d has not the bytes of the put after the deletion", i)
			}
		}
	}
	must(t, ns.Drop(context.Background()))
	p.get(ns, 0, 16, client.Miss)
	if st := r.node.Stat().Memory; st.Blocks != 0 {
		t.Errorf("%d blocks in memory after the drop", st.Blocks)
	}
	p.put(ns, 0, 16, client.Stored)
	p.get(ns, 0, 16, client.Hit)
	must(t, r.node.DropNamespace("a")) // as an operator does
	p.get(ns, 0, 16, client.Miss)
}

// TestMemoryWrongBytesNever: clients that put, delete, drop, prefetch and read the same
// few keys of many versions in a tier far too small for them never see bytes that
// are not of one put under the key, nor any after a deletion or drop was acknowledged.
func TestMemoryWrongBytesNever(t *testing.T) {
	for _, mode := range []tier.Mode{tier.Exclusive, tier.Inclusive} {
		r := withMemory(t, 2, tier.Options{Bytes: 2 << 20, Mode: mode, Verify: true}).start()
		rounds := 150
		if testing.Short() {
			rounds = 60
		}
		var wg sync.WaitGroup
		for worker := range 4 {
			c := r.dial()
			ns, p := open(t, c, "shared"), newPool(t, c, 32)
			own := open(t, c, string(rune('a'+worker)))
			wg.Go(func() { churn(t, uint64(worker), rounds, ns, own, p) })
		}
		wg.Wait()
		r.settle()
		st := r.node.Stat().Memory
		t.Logf("%s: %+v", mode, *st)
		// How often exclusive memory is filled and used depends on who comes first.
		if st.Bytes > st.TotalBytes || st.Decayed != 0 || mode == tier.Inclusive && (st.Hits == 0 || st.Evicted == 0) {
			t.Errorf("%s: %+v", mode, *st)
		}
		r.stop()
	}
}

// churn is one client of TestMemoryWrongBytesNever. The content of a key is always the
// key's in the shared namespace, and the newest version's in its own.
func churn(t *testing.T, seed uint64, rounds int, shared, own *client.Namespace, p pool) {
	rng := rand.New(rand.NewPCG(seed, 9))
	const span = 300
	version, here := 0, false
	for range rounds {
		from, n := rng.IntN(span), 1+rng.IntN(32)
		switch rng.IntN(8) {
		case 0, 1:
			p.put(shared, from, n, client.Stored, client.Present, client.Dropped)
		case 2:
			if _, err := shared.Delete(context.Background(), 0, keys(from, n)); err != nil {
				t.Error(err)
			}
		case 3:
			shared.Prefetch(0, keys(from, n))
		case 4, 5:
			p.get(shared, from, n, client.Hit, client.Miss)
		default:
			version, here = churnOwn(t, rng, own, p, version, here)
		}
	}
}

// churnOwn works on block 0 of a namespace that nobody else uses.
func churnOwn(t *testing.T, rng *rand.Rand, own *client.Namespace, p pool, version int, here bool) (int, bool) {
	b := []client.Block{{Key: key(0), Places: []client.Place{p.r.Row(0, blockBytes)}}}
	switch rng.IntN(6) {
	case 0:
		version++
		p.fill(0, version)
		if s := own.Put(b, client.PutOptions{}).Wait().Statuses[0]; s == client.Stored {
			return version, true
		}
		return version - 1, here
	case 1:
		if _, err := own.Delete(context.Background(), 0, keys(0, 1)); err != nil {
			t.Error(err)
		}
		return version, false
	case 2:
		if err := own.Drop(context.Background()); err != nil {
			t.Error(err)
		}
		return version, false
	case 3:
		own.Prefetch(0, keys(0, 1))
		return version, here
	}
	clear(p.row(0))
	s := own.Get(b, client.GetOptions{}).Wait().Statuses[0]
	if s == client.Hit && !here {
		t.Error("a hit after the deletion was acknowledged")
	}
	if s == client.Hit && !p.holds(0, version) {
		t.Errorf("a hit with bytes that are not those of version %d", version)
	}
	return version, here
}

// TestMemoryIsGone: a client that shrinks its file while blocks come from memory
// costs itself misses, and nobody else anything.
func TestMemoryIsGone(t *testing.T) {
	r := withMemory(t, 1, tier.Options{Bytes: 8 << 20, Mode: tier.Inclusive}).start()
	c := r.dial()
	ns, p := open(t, c, "a"), newPool(t, c, 64)
	p.put(ns, 0, 64, client.Stored)
	p.get(ns, 0, 64, client.Hit)
	file, err := os.OpenFile("/dev/shm/"+"spillway-test-shrinks", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	must(t, err)
	defer os.Remove(file.Name())
	defer file.Close()
	must(t, file.Truncate(64*blockBytes))
	region, err := c.Register(file, 64*blockBytes)
	must(t, err)
	blocks := make([]client.Block, 64)
	for i := range blocks {
		blocks[i] = client.Block{Key: key(i), Places: []client.Place{region.Row(i, blockBytes)}}
	}
	job := ns.Get(blocks, client.GetOptions{})
	must(t, file.Truncate(8*blockBytes))
	wantAll(t, job.Wait(), client.Hit, client.Miss)
	result := ns.Get(blocks, client.GetOptions{}).Wait()
	wantAll(t, client.Result{Statuses: result.Statuses[:8]}, client.Hit)
	wantAll(t, client.Result{Statuses: result.Statuses[8:]}, client.Miss)
	p.get(ns, 0, 64, client.Hit)
	if st := r.node.Stat(); st.Faults == 0 || st.Memory.Hits == 0 {
		t.Errorf("faults %d, memory %+v", st.Faults, *st.Memory)
	}
}

// TestMemoryAfterKill: what a killed daemon had in memory is nowhere afterwards but on
// the drive, and a deletion that was acknowledged before holds.
func TestMemoryAfterKill(t *testing.T) {
	disk, index := sim.NewDisk(sim.Config{Seed: 3}), vfs.NewCrashableMem()
	r := withMemory(t, 1, tier.Options{Bytes: 4 << 20, Mode: tier.Inclusive})
	r.disk, r.index = disk, index
	r.start()
	c := r.dial()
	ns, p := open(t, c, "a"), newPool(t, c, 32)
	for i := range 32 {
		p.fill(i, i)
	}
	wantAll(t, ns.Put(p.blocks(0, 32), client.PutOptions{Durable: true}).Wait(), client.Stored)
	p.get(ns, 0, 32, client.Hit)
	if n, err := ns.Delete(context.Background(), 0, keys(0, 16)); n != 16 || err != nil {
		t.Fatal(n, err)
	}
	ns.Prefetch(0, keys(0, 32))
	disk.Kill()
	r.abandon()
	r.index = index.CrashClone(vfs.CrashCloneCfg{})
	r.options.Memory = newTier(t, tier.Options{Bytes: 4 << 20, Mode: tier.Inclusive})
	r.start()
	must(t, c.Await(context.Background()))
	p.get(ns, 0, 16, client.Miss)
	for range 2 {
		p.get(ns, 16, 16, client.Hit)
	}
}

// abandon ends the node of a store that has died.
func (r *rig) abandon() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	must(r.t, r.node.Close(ctx))
	must(r.t, <-r.served)
	for _, s := range r.node.Stores() {
		_ = s.Close() // its device is dead
	}
	r.node = nil
}
