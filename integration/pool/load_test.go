package pool

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-kv/spillway/client"
)

const (
	blockBytes  = 64 << 10
	chainBlocks = 8
)

// chain is blocks that are put together, once, and perhaps deleted.
type chain struct {
	number   int
	isPut    atomic.Bool // its put has ended: what is put beside a deletion may come behind it
	deleting atomic.Bool
	// erasedAt are the nodes that know that it is deleted, a bit each.
	erasedAt atomic.Uint64
}

// load is clients of all nodes that put, get and delete.
type load struct {
	r     *rig
	space string // name of the namespace
	stop  chan struct{}
	ended sync.WaitGroup

	mu     sync.Mutex
	chains []*chain

	puts, stored, gets, hits, deleted, undecided, lates atomic.Int64
	latestNS                                            atomic.Int64 // beyond a deadline
}

func (r *rig) newLoad(space string) *load {
	return &load{r: r, space: space, stop: make(chan struct{})}
}

// run starts clients of a node.
func (l *load) run(n *node, clients int) {
	for i := range clients {
		l.ended.Go(func() {
			w := l.worker(n, uint64(n.number)<<8|uint64(i))
			defer w.c.Close()
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				w.step()
				time.Sleep(time.Duration(w.rng.IntN(40)) * time.Millisecond)
			}
		})
	}
}

// end stops the clients.
func (l *load) end() {
	close(l.stop)
	l.ended.Wait()
	l.r.t.Logf("load: %d puts, %d blocks stored, %d gets, %d hits, %d late, %d chains deleted, %d perhaps; latest answer %v beyond its deadline",
		l.puts.Load(), l.stored.Load(), l.gets.Load(), l.hits.Load(), l.lates.Load(), l.deleted.Load(), l.undecided.Load(), time.Duration(l.latestNS.Load()))
}

// worker is one client.
type worker struct {
	l    *load
	n    *node
	c    *client.Client
	ns   *client.Namespace
	rows *client.Region
	rng  *rand.Rand
}

func (l *load) worker(n *node, seed uint64) *worker {
	w := &worker{l: l, n: n, c: client.New(client.Options{Path: n.socket(), RetryMax: 50 * time.Millisecond}), rng: rand.New(rand.NewPCG(seed, 77))}
	var err error
	for range 600 { // its daemon may be down at the moment
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		w.ns, err = w.c.Namespace(ctx, map[string]any{"name": l.space, "block_bytes": blockBytes}, "")
		cancel()
		if err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err == nil {
		w.rows, err = w.c.Allocate(chainBlocks * blockBytes)
	}
	if err != nil {
		l.r.t.Errorf("%s: a client: %v", n.name, err)
		panic(err)
	}
	return w
}

func word(chain, block, at int) uint64 {
	return (uint64(chain)*chainBlocks+uint64(block)+1)*0x9e3779b97f4a7c15 + uint64(at)
}

func (c *chain) keys() (keys [][]byte) {
	for i := range chainBlocks {
		keys = append(keys, fmt.Appendf(nil, "chain-%d-%d", c.number, i))
	}
	return keys
}

func (w *worker) blocks(c *chain) []client.Block {
	all := make([]client.Block, chainBlocks)
	for i, key := range c.keys() {
		all[i] = client.Block{Key: key, Places: []client.Place{w.rows.Row(i, blockBytes)}}
	}
	return all
}

// any is a chain that was put before; nil: there is none.
func (l *load) any(rng *rand.Rand) *chain {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.chains) == 0 {
		return nil
	}
	if rng.IntN(2) == 0 { // a late one
		return l.chains[len(l.chains)-1-rng.IntN(min(len(l.chains), 40))]
	}
	return l.chains[rng.IntN(len(l.chains))]
}

func (l *load) add() *chain {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &chain{number: len(l.chains)}
	l.chains = append(l.chains, c)
	return c
}

// step does one thing.
func (w *worker) step() {
	switch draw := w.rng.IntN(100); {
	case draw < 30:
		w.put(w.l.add())
	case draw < 95:
		if c := w.l.any(w.rng); c != nil {
			w.get(c, 500*time.Millisecond)
		}
	default:
		if c := w.l.any(w.rng); c != nil && c.isPut.Load() {
			w.delete(c)
		}
	}
}

func (w *worker) put(c *chain) {
	mem := w.rows.Bytes()
	for i := 0; i < len(mem); i += 8 {
		binary.LittleEndian.PutUint64(mem[i:], word(c.number, i/blockBytes, i%blockBytes))
	}
	w.l.puts.Add(1)
	j := w.ns.Put(w.blocks(c), client.PutOptions{Durable: w.rng.IntN(8) == 0})
	for _, s := range j.Wait().Statuses {
		if s == client.Stored {
			w.l.stored.Add(1)
		}
	}
	<-j.Released()
	c.isPut.Store(true)
}

// get reads a chain and proves what it got; it returns the blocks that were hits.
func (w *worker) get(c *chain, timeout time.Duration) (hits int) {
	erased := c.erasedAt.Load()&(1<<w.n.number) != 0
	mem := w.rows.Bytes()
	clear(mem)
	disturbed := w.n.disturbed.Load()
	began := time.Now()
	j := w.ns.Get(w.blocks(c), client.GetOptions{Timeout: timeout})
	result := j.Wait()
	if late := time.Since(began) - timeout; disturbed%2 == 0 && w.n.disturbed.Load() == disturbed {
		for was := w.l.latestNS.Load(); int64(late) > was && !w.l.latestNS.CompareAndSwap(was, int64(late)); was = w.l.latestNS.Load() {
		}
		if late > outliveMax {
			w.l.r.t.Errorf("%s: a get came back %v after its deadline", w.n.name, late)
		}
	}
	<-j.Released()
	w.l.gets.Add(1)
	for i, s := range result.Statuses {
		switch {
		case s == client.Late:
			w.l.lates.Add(1)
		case s == client.Hit && erased:
			w.l.r.t.Errorf("%s: block %d of chain %d is a hit, and was deleted through this very node before", w.n.name, i, c.number)
		case s == client.Hit:
			hits++
			for at := 0; at < blockBytes; at += 8 {
				if binary.LittleEndian.Uint64(mem[i*blockBytes+at:]) != word(c.number, i, at) {
					w.l.r.t.Errorf("%s: block %d of chain %d is a hit with wrong bytes at %d", w.n.name, i, c.number, at)
					break
				}
			}
		}
	}
	w.l.hits.Add(int64(hits))
	return hits
}

// outliveMax is what a crowded machine may take to bring an answer that was sent in time.
const outliveMax = 5 * time.Second

func (w *worker) delete(c *chain) {
	c.deleting.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := w.ns.Delete(ctx, 0, c.keys()); err != nil {
		w.l.undecided.Add(1)
		return
	}
	w.l.deleted.Add(1)
	c.erasedAt.Or(1 << w.n.number)
}

// sweep reads every deleted chain, and some others, at every one of these nodes, when all
// know all: what was deleted is nowhere.
func (l *load) sweep(nodes []*node) {
	l.r.t.Helper()
	all := uint64(1)<<len(l.r.nodes) - 1
	found, of, deleted, most := 0, 0, 0, 200
	if here.slow() {
		most = 16
	}
	for _, n := range nodes {
		w := l.worker(n, 1)
		others := 0
		for i := len(l.chains) - 1; i >= 0; i-- {
			c := l.chains[i]
			if c.erasedAt.Load() != 0 {
				c.erasedAt.Store(all)
				deleted++
			} else if others++; others > most {
				continue
			}
			hits := w.get(c, 10*time.Second)
			if !c.deleting.Load() {
				found, of = found+hits, of+chainBlocks
			}
		}
		w.c.Close()
	}
	l.r.t.Logf("no block of %d deleted chains is found, of %d others %d are", deleted/len(nodes), of, found)
}
