package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/tiering/admit"
	"github.com/spillway-kv/spillway/tiering/arena"
	"github.com/spillway-kv/spillway/tiering/memory"
)

const localBlock = 4096

// localRig is a node over several stores on simulated drives, and its part of a pool.
type localRig struct {
	t      *testing.T
	disks  []*sim.Disk
	stores []*engine.Store
	node   *Node
	space  poolSpace
}

func newLocalRig(t *testing.T, stores int, o Options) *localRig {
	t.Helper()
	r := &localRig{t: t}
	for i := range stores {
		disk := sim.NewDisk(sim.Config{Seed: uint64(i), MinLatency: 20 * time.Microsecond, MaxLatency: 100 * time.Microsecond})
		dev, err := disk.Open()
		if err != nil {
			t.Fatal(err)
		}
		s, err := engine.Open(engine.Options{Device: dev, IndexFS: vfs.NewCrashableMem(), CapacityBytes: 8 << 20, SegmentBytes: 128 << 10, LeaseShare: 0.9})
		if err != nil {
			t.Fatal(err)
		}
		r.disks, r.stores = append(r.disks, disk), append(r.stores, s)
	}
	o.Stores = r.stores
	var err error
	if r.node, err = New(o); err != nil {
		t.Fatal(err)
	}
	if r.node.frames, err = r.node.newPeerFrames(r.node.options.Load().PeerFrameBytes); err != nil {
		t.Fatal(err)
	}
	space, err := local{r.node}.OpenSpace(engine.Descriptor{Name: "n", BlockBytes: localBlock})
	if err != nil {
		t.Fatal(err)
	}
	r.space = space.(poolSpace)
	return r
}

func (r *localRig) close() {
	r.t.Helper()
	for _, d := range r.disks {
		d.SetFaults(sim.Plan{})
	}
	if err := r.node.Close(context.Background()); err != nil {
		r.t.Error(err)
	}
	for r.node.frames.InUse() > 0 {
		<-r.node.frames.Notify()
	}
	r.node.frames.Free()
	for _, s := range r.stores {
		if err := s.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

func localKey(n int) engine.Key {
	return engine.Key{Bytes: binary.BigEndian.AppendUint64(nil, uint64(n))}
}

func localKeys(from, n int) []engine.Key {
	keys := make([]engine.Key, n)
	for i := range keys {
		keys[i] = localKey(from + i)
	}
	return keys
}

func localContent(n int) []byte {
	b := make([]byte, localBlock)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(n))
	rand.NewChaCha8(seed).Read(b) // never fails
	return b
}

// arrival is a chain of n blocks.
func arrival(incarnation uint32, from, n int) *pool.Arrival {
	a := &pool.Arrival{Incarnation: incarnation}
	for i := range n {
		a.Items = append(a.Items, pool.ArrivalItem{Key: localKey(from + i), Src: [][]byte{localContent(from + i)}, Depth: uint32(i)})
	}
	return a
}

// write stores a chain, and wants these statuses.
func (r *localRig) write(a *pool.Arrival, want ...engine.Status) {
	r.t.Helper()
	r.space.Write(context.Background(), a)
	for i := range a.Items {
		if !slices.Contains(want, a.Items[i].Status) {
			r.t.Fatalf("item %d: %v (%v), want %v", i, a.Items[i].Status, a.Items[i].Err, want)
		}
	}
}

// read reads blocks and verifies them, and returns which came.
func (r *localRig) read(ctx context.Context, from, n int, copied bool) (came []bool) {
	r.t.Helper()
	ids, _ := r.space.IDs(localKeys(from, n))
	came = make([]bool, n)
	var mu sync.Mutex
	read := r.space.Read
	if copied {
		read = r.space.Copy
	}
	read(ctx, ids, func(i int, pieces [][]byte, checksum uint64, done func()) {
		mu.Lock()
		defer mu.Unlock()
		if came[i] {
			r.t.Errorf("block %d came twice", from+i)
		}
		came[i] = true
		if engine.Checksum(ids[i], pieces) != checksum || !bytes.Equal(bytes.Join(pieces, nil), localContent(from+i)) {
			r.t.Errorf("block %d: wrong bytes", from+i)
		}
		done()
	})
	return came
}

func (r *localRig) all(came []bool, want bool) {
	r.t.Helper()
	for i, is := range came {
		if is != want {
			r.t.Fatalf("block %d: %v, want %v", i, is, want)
		}
	}
}

// TestLocalSpace: blocks on several stores are written, found, leased, read, listed and
// erased by ID, as peers ask for it.
func TestLocalSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLocalRig(t, 3, Options{})
		defer r.close()
		r.write(arrival(1, 0, 200), engine.Stored)
		r.write(arrival(1, 0, 200), engine.Present)
		ids, incarnation := r.space.IDs(localKeys(0, 210))
		if incarnation != 1 {
			t.Fatal(incarnation)
		}
		present := r.space.Present(ids)
		r.all(present[:200], true)
		r.all(present[200:], false)
		for i := range r.stores {
			if n := r.space.s.parts[i].ns.Stat().Blocks; n < 30 {
				t.Errorf("store %d has %d of 200 blocks", i, n)
			}
		}
		r.all(r.read(context.Background(), 0, 200, false), true)
		r.all(r.read(context.Background(), 0, 200, true), true)
		r.all(r.read(context.Background(), 200, 10, false), false)
		r.space.Touch(ids)

		present, leased, release := r.space.Lease(ids, engine.MatchOptions{Lease: time.Minute})
		if r.all(present[:200], true); leased != 200 || release == nil {
			t.Errorf("%d leased", leased)
		}
		release()
		if _, leased, release := r.space.Lease(ids[200:], engine.MatchOptions{Lease: time.Minute}); leased != 0 || release != nil {
			t.Error("a lease of nothing")
		}

		time.Sleep(time.Second) // the index knows of all
		seen := map[pool.ID]bool{}
		if err := r.space.Scan(pool.Cursor{}, func(_ pool.Cursor, e engine.Entry) bool { seen[e.ID] = true; return true }); err != nil || len(seen) != 200 {
			t.Fatalf("%d blocks listed, %v", len(seen), err)
		}
		n := 0
		place := pool.Cursor{}
		for last := -1; n > last; { // three at a time, from where it stopped
			last = n
			if err := r.space.Scan(place, func(at pool.Cursor, _ engine.Entry) bool { n++; place = at; return n < last+3 }); err != nil {
				t.Fatal(err)
			}
		}
		if n != 200 {
			t.Fatalf("%d blocks listed", n)
		}

		if err := r.space.Delete(ids[:50]); err != nil {
			t.Fatal(err)
		}
		r.all(r.read(context.Background(), 0, 50, false), false)
		r.all(r.read(context.Background(), 50, 150, false), true)
		if err := r.space.Raise(4); err != nil {
			t.Fatal(err)
		}
		r.all(r.space.Present(ids), false)
		r.write(arrival(3, 0, 10), engine.Dropped)
		a := arrival(4, 0, 10)
		a.Options.Durability = engine.Durable
		r.write(a, engine.Stored)
		if err := r.space.Clear(); err != nil {
			t.Fatal(err)
		}
		r.all(r.read(context.Background(), 0, 10, false), false)
		if n := r.space.Incarnation(); n != 4 {
			t.Errorf("incarnation %d", n)
		}
	})
}

// TestLocalSpaceOpens: what the stores know of is opened for peers, whether a client has
// it open or not; stores that disagree are raised to the highest.
func TestLocalSpaceOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLocalRig(t, 2, Options{})
		defer r.close()
		d := engine.Descriptor{Name: "only on one", BlockBytes: localBlock}
		ns, err := r.stores[1].Namespace(d)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := ns.Drop(); err != nil {
				t.Fatal(err)
			}
		}
		id, _ := d.ID()
		if n := len((local{r.node}).Spaces()); n != 2 {
			t.Errorf("%d spaces", n)
		}
		s := local{r.node}.Space(id)
		if s == nil || s.ID() != id || s.Descriptor().Name != d.Name || s.Incarnation() != 5 {
			t.Fatalf("%+v", s)
		}
		ids, incarnation := s.IDs(localKeys(0, 3))
		if want, _ := ns.IDs(localKeys(0, 3)); incarnation != 5 || !slices.Equal(ids, want) {
			t.Errorf("IDs under incarnation %d", incarnation)
		}
		if err := s.Raise(s.Incarnation()); err != nil {
			t.Fatal(err)
		}
		for i := range r.stores {
			if n := s.(poolSpace).s.parts[i].ns.Incarnation(); n != 5 {
				t.Errorf("store %d has incarnation %d", i, n)
			}
		}
		if s := (local{r.node}).Space([32]byte{1}); s != nil {
			t.Errorf("%+v", s)
		}
	})
}

// TestLocalOnlyListed: a peer opens no namespace that a client might not.
func TestLocalOnlyListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLocalRig(t, 1, Options{OnlyListed: true, Namespaces: map[string]NamespaceRule{"n": {Token: "secret"}}})
		defer r.close()
		if _, err := (local{r.node}).OpenSpace(engine.Descriptor{Name: "m", BlockBytes: localBlock}); !errors.Is(err, errDenied) {
			t.Error(err)
		}
	})
}

// TestLocalSickStore: what a sick store has is not here, and what it can hold is no room.
func TestLocalSickStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLocalRig(t, 2, Options{})
		defer r.close()
		r.write(arrival(1, 0, 200), engine.Stored)
		capacity, free := local{r.node}.Room()
		if capacity != 16<<20 || free >= capacity || free < capacity/2 {
			t.Fatalf("%d of %d free", free, capacity)
		}
		r.disks[0].SetFaults(sim.Plan{ReadEIO: 1, WriteEIO: 1})
		for range 20 {
			r.read(context.Background(), 0, 200, false)
		}
		if r.stores[0].Health() == nil {
			t.Fatal("the store is well")
		}
		own := r.space.s.parts[1].ns.Stat().Blocks
		ids, _ := r.space.IDs(localKeys(0, 200))
		n := 0
		for _, yes := range r.space.Present(ids) {
			if yes {
				n++
			}
		}
		if n != own {
			t.Errorf("%d blocks present, the other store has %d", n, own)
		}
		if capacity, _ := (local{r.node}).Room(); capacity != 8<<20 {
			t.Errorf("capacity %d", capacity)
		}
	})
}

// TestLocalFrames: however many peers read at once, and however slowly they take the
// blocks, memory is bounded; a read whose caller has gone holds nothing.
func TestLocalFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const frames = 16
		r := newLocalRig(t, 2, Options{PeerFrameBytes: frames * localBlock})
		defer r.close()
		r.write(arrival(1, 0, 300), engine.Stored)
		ids, _ := r.space.IDs(localKeys(0, 300))
		var wg sync.WaitGroup
		var mu sync.Mutex
		came := 0
		for range 5 {
			wg.Go(func() {
				r.space.Read(context.Background(), ids, func(i int, pieces [][]byte, checksum uint64, done func()) {
					mu.Lock()
					came++
					if n := r.node.frames.InUse(); n > frames {
						t.Errorf("%d frames in use", n)
					}
					mu.Unlock()
					time.AfterFunc(time.Millisecond, done) // as a slow network does
				})
			})
		}
		wg.Wait()
		if came != 5*300 {
			t.Errorf("%d blocks came", came)
		}
		// A peer that takes nothing any more: others wait as long as theirs do.
		var stuck []func()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r.space.Read(ctx, ids, func(_ int, _ [][]byte, _ uint64, done func()) {
			mu.Lock()
			stuck = append(stuck, done)
			mu.Unlock()
		})
		if len(stuck) != frames {
			t.Errorf("%d frames are stuck", len(stuck))
		}
		ctx, cancel = context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r.all(r.read(ctx, 0, 10, false), false)
		if st := r.space.s.parts[0].drive.stat(); st.LoadBytes != 0 || st.LoadsWaiting != 0 {
			t.Errorf("turns are held: %+v", st)
		}
		for _, done := range stuck {
			done()
		}
		r.all(r.read(context.Background(), 0, 10, false), true)
	})
}

// TestLocalLate: a drive that hangs keeps neither a reader nor a writer beyond its time,
// but for the memory of a write under way.
func TestLocalLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLocalRig(t, 1, Options{})
		defer r.close()
		r.write(arrival(1, 0, 20), engine.Stored)
		time.Sleep(10 * time.Second)
		r.disks[0].SetFaults(sim.Plan{Delay: 1, DelayBy: 3 * time.Second})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		began := time.Now()
		r.all(r.read(ctx, 0, 20, false), false)
		if took := time.Since(began); took > time.Second+10*time.Millisecond {
			t.Errorf("a read took %v", took)
		}
		a := arrival(1, 100, 2)
		a.Options.Deadline = time.Now().Add(time.Second)
		r.space.Write(context.Background(), a)
		if a.Items[0].Status != engine.Late {
			t.Errorf("%v", a.Items[0].Status)
		}
		if took := time.Since(began); took < 3*time.Second || took > 8*time.Second {
			t.Errorf("the memory of a late write was in use until %v", took)
		}
	})
}

// TestCopyGivesWay: copies wait while clients load, but not for ever.
func TestCopyGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLocalRig(t, 1, Options{})
		defer r.close()
		r.write(arrival(1, 0, 20), engine.Stored)
		part := &r.space.s.parts[0]
		turn, ok := part.drive.enter(part.flow, &stream{}, loads, 1<<20, nil)
		if !ok {
			t.Fatal("no turn")
		}
		began := time.Now()
		r.all(r.read(context.Background(), 0, 20, true), true)
		if took := time.Since(began); took < quietTime || took > 2*quietTime {
			t.Errorf("a copy beside a load took %v", took)
		}
		part.drive.leave(turn, localBlock, 1<<20)
		began = time.Now()
		r.all(r.read(context.Background(), 0, 20, true), true)
		if took := time.Since(began); took > quietTime/2 {
			t.Errorf("a copy on a quiet drive took %v", took)
		}
	})
}

// TestLocalAdmission: what peers send is admitted as what clients put is; what the pool
// moves was admitted before, but the budget of the drive counts.
func TestLocalAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLocalRig(t, 1, Options{Admission: Admission{Admit: AdmitSecond, WriteBytesPerSecond: 20 * localBlock, WriteBurst: time.Second}})
		defer r.close()
		first := arrival(1, 0, 5)
		r.write(first, engine.Dropped)
		if first.Items[0].Reason != admit.FirstSight {
			t.Errorf("%v", first.Items[0].Reason)
		}
		r.write(arrival(1, 0, 5), engine.Stored)
		moved := arrival(1, 100, 5)
		moved.Moved, moved.Options.Partial = true, true
		r.write(moved, engine.Stored)
		moved = arrival(1, 200, 40)
		moved.Moved = true
		r.write(moved, engine.Stored, engine.Dropped)
		if it := moved.Items[39]; it.Status != engine.Dropped || it.Reason != admit.OverBudget {
			t.Errorf("%+v", it)
		}
		time.Sleep(time.Minute)
		partial := arrival(1, 300, 1)
		partial.Options.Partial = true
		r.write(partial, engine.Dropped)
		if it := partial.Items[0]; it.Reason != admit.Partial {
			t.Errorf("%+v", it)
		}
	})
}

// TestLocalMemory: what the memory tier has goes to peers from there.
func TestLocalMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier, err := memory.New(memory.Options{Bytes: 4 << 20, Pages: arena.PagesSmall})
		if err != nil {
			t.Fatal(err)
		}
		r := newLocalRig(t, 2, Options{Memory: tier})
		defer func() {
			r.close()
			if err := tier.Close(); err != nil {
				t.Error(err)
			}
		}()
		r.write(arrival(1, 0, 20), engine.Stored)
		if n := r.node.ahead.begin(r.space.s, localKeys(5, 10), 5, nil, true); n != 10 {
			t.Fatalf("%d blocks are fetched", n)
		}
		time.Sleep(time.Second)
		r.all(r.read(context.Background(), 0, 20, false), true)
		if n := tier.Stat().Hits; n != 10 {
			t.Errorf("%d of 10 blocks came from memory", n)
		}
		ids, _ := r.space.IDs(localKeys(0, 20))
		if err := r.space.Delete(ids[:10]); err != nil {
			t.Fatal(err)
		}
		r.all(r.read(context.Background(), 0, 10, false), false)
		if err := r.space.Raise(2); err != nil {
			t.Fatal(err)
		}
		if st := tier.Stat(); st.Blocks != 0 {
			t.Errorf("%d blocks of a dropped namespace in memory", st.Blocks)
		}
	})
}
