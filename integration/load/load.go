// Package load puts a store under mixed load and reports every operation
// before it begins and after it is acknowledged, so that whoever kills the
// process knows what the store promised.
package load

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// Spaces are the namespaces of the load. The last one is dropped now and then
// and belongs to one worker, the others are divided among all.
const (
	Spaces       = 2
	DroppedSpace = Spaces - 1
)

// Descriptor is that of namespace number space.
func Descriptor(space, blockBytes int) engine.Descriptor {
	return engine.Descriptor{Name: fmt.Sprintf("load-%d", space), BlockBytes: blockBytes}
}

// Config says what to do.
type Config struct {
	Seed       uint64
	Workers    int
	BlockBytes int
	// KeysPerWorker is how many keys each worker has in each of its namespaces.
	// No two workers share a key.
	KeysPerWorker int
	// Base is above every version that an earlier run gave out.
	Base uint64
	// Pressure: the keys do not fit into the store, so a present block may be
	// gone at any time, and puts may be refused.
	Pressure bool
}

// KeyOf is key number i of a worker.
func (c Config) KeyOf(worker, i int) uint64 { return uint64(worker*c.KeysPerWorker + i) }

// Run works on s until the process ends or something is wrong: then it reports
// a Failure and returns.
func Run(s *engine.Store, c Config, report io.Writer) {
	var workers sync.WaitGroup
	failed := make(chan struct{})
	var once sync.Once
	for n := range c.Workers {
		workers.Go(func() {
			w := &worker{c: c, store: s, number: n, report: report, failed: failed,
				rng: rand.New(rand.NewPCG(c.Seed, uint64(n))), version: c.Base}
			if err := w.run(); err != nil {
				once.Do(func() {
					_ = Event{Kind: Failure, Text: err.Error()}.write(report) // the reader may be gone
					close(failed)
				})
			}
		})
	}
	workers.Wait()
}

// worker owns its keys: only it puts, reads and deletes them, so it knows what
// each must answer.
type worker struct {
	c       Config
	store   *engine.Store
	number  int
	report  io.Writer
	failed  chan struct{}
	rng     *rand.Rand
	version uint64
	spaces  []*engine.Namespace
	known   []map[uint64]uint64 // per namespace: the version last seen of each present key
}

func (w *worker) run() error {
	for space := range Spaces {
		ns, err := w.store.Namespace(Descriptor(space, w.c.BlockBytes))
		if err != nil {
			return err
		}
		w.spaces = append(w.spaces, ns)
		w.known = append(w.known, map[uint64]uint64{})
		for i := range w.c.KeysPerWorker {
			if err := w.learn(space, w.c.KeyOf(w.number, i)); err != nil {
				return err
			}
		}
	}
	if err := (Event{Kind: Ready}).write(w.report); err != nil {
		return err
	}
	for {
		select {
		case <-w.failed:
			return nil
		default:
		}
		if err := w.one(); err != nil {
			return err
		}
	}
}

// one does one operation.
func (w *worker) one() error {
	space := 0
	if w.number == 0 && w.rng.IntN(4) == 0 {
		space = DroppedSpace
		if w.rng.IntN(16) == 0 {
			return w.drop(space)
		}
	}
	switch n := w.rng.IntN(10); {
	case n < 6:
		return w.put(space)
	case n < 9:
		return w.get(space)
	default:
		return w.delete(space)
	}
}

// chain picks a few keys of the worker, none twice.
func (w *worker) chain() []uint64 {
	n := 1 + w.rng.IntN(min(8, w.c.KeysPerWorker))
	first := w.rng.IntN(w.c.KeysPerWorker)
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = w.c.KeyOf(w.number, (first+i)%w.c.KeysPerWorker)
	}
	return keys
}

// put puts a chain of new versions. Keys that are present must keep theirs.
func (w *worker) put(space int) error {
	w.version++
	keys := w.chain()
	items := make([]engine.PutItem, len(keys))
	for i, key := range keys {
		b := Block{key, w.version}
		data := w.memory()
		Fill(data, b)
		items[i] = engine.PutItem{Key: engine.Key{Bytes: b.KeyBytes()}, Src: [][]byte{data}, Depth: uint32(i)}
		if err := w.tell(PutBegin, space, b); err != nil {
			return err
		}
	}
	o := engine.PutOptions{Durability: engine.Relaxed}
	done := PutRelaxed
	if w.rng.IntN(3) > 0 {
		o.Durability, done = engine.Durable, PutDurable
	}
	if err := w.spaces[space].Put(items, o); err != nil {
		return err
	}
	for i, key := range keys {
		if err := w.putAnswer(space, Block{key, w.version}, &items[i], done); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) putAnswer(space int, b Block, it *engine.PutItem, done Kind) error {
	old, had := w.known[space][b.Key]
	switch {
	case it.Status == engine.Stored:
		if had && !w.c.Pressure {
			return fmt.Errorf("put of %v was stored over version %d", b, old)
		}
	case it.Status == engine.Present:
		if !had {
			return fmt.Errorf("put of %v found a block that was never put", b)
		}
		b.Version = old
	case it.Status == engine.Dropped && (w.c.Pressure && errors.Is(it.Err, engine.ErrNoSpace) || errors.Is(it.Err, engine.ErrSick)):
		return w.tell(PutDropped, space, b)
	default:
		return fmt.Errorf("put of %v answered %v: %w", b, it.Status, it.Err)
	}
	w.known[space][b.Key] = b.Version
	return w.tell(done, space, b)
}

// get reads a chain and compares.
func (w *worker) get(space int) error {
	for _, key := range w.chain() {
		want, had := w.known[space][key]
		got, found, err := w.read(space, key)
		switch {
		case errors.Is(err, engine.ErrSick): // a drive slower than usual; nothing is said about the block
		case err != nil:
			return err
		case found && !had:
			return fmt.Errorf("%v came back and must be absent", got)
		case found && got.Version != want:
			return fmt.Errorf("%v came back, not version %d", got, want)
		case !found && had && !w.c.Pressure:
			return fmt.Errorf("key %d version %d is gone", key, want)
		case !found:
			delete(w.known[space], key)
		}
	}
	return nil
}

// learn finds out what is there after an earlier run.
func (w *worker) learn(space int, key uint64) error {
	if space == DroppedSpace && w.number != 0 {
		return nil
	}
	b, found, err := w.read(space, key)
	if err == nil && found {
		w.known[space][key] = b.Version
	}
	return err
}

func (w *worker) read(space int, key uint64) (Block, bool, error) {
	data := w.memory()
	items := []engine.GetItem{{Key: engine.Key{Bytes: Block{Key: key}.KeyBytes()}, Dst: [][]byte{data}}}
	if err := w.spaces[space].Get(items, engine.GetOptions{}); err != nil {
		return Block{}, false, err
	}
	switch it := items[0]; {
	case it.Status == engine.Miss && it.Err == nil:
		return Block{}, false, nil
	case it.Status != engine.Hit:
		return Block{}, false, fmt.Errorf("get of key %d answered %v: %w", key, it.Status, it.Err)
	}
	b, err := Read(data, key)
	return b, true, err
}

func (w *worker) delete(space int) error {
	keys := w.chain()
	asked := make([]engine.Key, len(keys))
	for i, key := range keys {
		asked[i].Bytes = Block{Key: key}.KeyBytes()
		if err := w.tell(DeleteBegin, space, Block{key, w.version}); err != nil {
			return err
		}
	}
	if _, err := w.spaces[space].Delete(asked); err != nil {
		return err
	}
	for _, key := range keys {
		delete(w.known[space], key)
		if err := w.tell(DeleteEnd, space, Block{key, w.version}); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) drop(space int) error {
	if err := w.tell(DropBegin, space, Block{Version: w.version}); err != nil {
		return err
	}
	if err := w.spaces[space].Drop(); err != nil {
		return err
	}
	clear(w.known[space])
	return w.tell(DropEnd, space, Block{Version: w.version})
}

func (w *worker) tell(k Kind, space int, b Block) error {
	return Event{Kind: k, Space: space, Block: b}.write(w.report)
}

// memory is one block of aligned memory, or now and then of unaligned.
func (w *worker) memory() []byte {
	if w.rng.IntN(8) == 0 {
		return device.AlignedBuffer(w.c.BlockBytes+1, 4096)[1:]
	}
	return device.AlignedBuffer(w.c.BlockBytes, 4096)
}
