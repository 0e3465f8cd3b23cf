package system

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
)

// clientMark makes this program a client of the socket it names, until it is killed.
const clientMark = "SPILLWAY_TEST_CLIENT"

const servedBlock = 64 << 10

// daemon is a real `spillway serve`.
type daemon struct {
	t           *testing.T
	dir, socket string
	process     *exec.Cmd
	log         *strings.Builder
}

func newDaemon(t *testing.T) *daemon {
	return &daemon{t: t, dir: filepath.Join(t.TempDir(), "store"), socket: filepath.Join(t.TempDir(), "s"), log: &strings.Builder{}}
}

func (d *daemon) start() {
	d.t.Helper()
	d.process = exec.Command(spillway, "serve", "--dir", d.dir, "--socket", d.socket, "--capacity", "64MiB", "--any-filesystem", "--buffered-io")
	d.process.Stderr, d.process.Stdout = d.log, d.log
	if err := d.process.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = d.process.Process.Kill(); _ = d.process.Wait() })
}

// kill ends the daemon without a warning.
func (d *daemon) kill() {
	_ = d.process.Process.Kill()
	_ = d.process.Wait() // "signal: killed"
}

// stop ends it as an operator does.
func (d *daemon) stop() {
	d.t.Helper()
	_ = d.process.Process.Signal(os.Interrupt)
	if err := d.process.Wait(); err != nil {
		d.t.Errorf("the daemon ended with %v\n%s", err, d.log)
	}
}

func (d *daemon) dial(t testing.TB) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Path: d.socket, RetryMax: 50 * time.Millisecond})
	if err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	return c
}

// stat asks the daemon for its state.
func (d *daemon) stat(c *client.Client) (st node.Stat) {
	d.t.Helper()
	b, err := c.Stats(context.Background())
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return st
}

// served is one client that puts and gets blocks whose content follows from their
// numbers.
type served struct {
	ns   *client.Namespace
	rows *client.Region
	rng  *rand.Rand
	hits *atomic.Int64
}

const servedRows = 16

func newServed(c *client.Client, seed uint64, hits *atomic.Int64) (*served, error) {
	ns, err := c.Namespace(context.Background(), map[string]any{"name": "served", "block_bytes": servedBlock}, "")
	if err != nil {
		return nil, err
	}
	rows, err := c.Allocate(servedRows * servedBlock)
	return &served{ns, rows, rand.New(rand.NewPCG(seed, 3)), hits}, err
}

func servedWord(n, at int) uint64 { return (uint64(n)+1)*0x9e3779b97f4a7c15 + uint64(at) }

func (s *served) blocks(from int) []client.Block {
	all := make([]client.Block, servedRows)
	for i := range all {
		all[i] = client.Block{Key: fmt.Appendf(nil, "block-%d", from+i), Places: []client.Place{s.rows.Row(i, servedBlock)}}
	}
	return all
}

// step puts or gets a run of blocks and returns what is wrong with what it got.
func (s *served) step() error {
	from := s.rng.IntN(2000)
	mem := s.rows.Bytes()
	if s.rng.IntN(2) == 0 {
		for i := 0; i < len(mem); i += 8 {
			binary.LittleEndian.PutUint64(mem[i:], servedWord(from+i/servedBlock, i%servedBlock))
		}
		j := s.ns.Put(s.blocks(from), client.PutOptions{Durable: s.rng.IntN(8) == 0})
		j.Wait()
		<-j.Released()
		return nil
	}
	clear(mem)
	j := s.ns.Get(s.blocks(from), client.GetOptions{})
	result := j.Wait()
	<-j.Released()
	for row, status := range result.Statuses {
		if status != client.Hit {
			continue
		}
		s.hits.Add(1)
		for i := 0; i < servedBlock; i += 8 {
			if binary.LittleEndian.Uint64(mem[row*servedBlock+i:]) != servedWord(from+row, i) {
				return fmt.Errorf("block %d is a hit with wrong bytes at %d", from+row, i)
			}
		}
	}
	return nil
}

// TestDaemonKilled kills the daemon again and again under load: no wrong byte, it
// always comes back on the same socket, and its clients with it.
func TestDaemonKilled(t *testing.T) {
	rounds := 8
	if long {
		rounds = 100
	}
	seed := uint64(4711)
	t.Logf("seed %d, %d kills", seed, rounds)
	rng := rand.New(rand.NewPCG(seed, 1))
	d := newDaemon(t)
	d.start()
	var wg sync.WaitGroup
	var hits atomic.Int64
	stop := make(chan struct{})
	for w := range 3 {
		c := d.dial(t)
		defer c.Close()
		s, err := newServed(c, uint64(w), &hits)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := s.step(); err != nil {
					t.Error(err)
					return
				}
				if !c.Connected() {
					time.Sleep(time.Millisecond) // a miss costs nothing: do not spin
				}
			}
		})
	}
	for round := range rounds {
		before := hits.Load()
		for end := time.Now().Add(time.Minute); hits.Load() == before && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if hits.Load() == before {
			t.Fatalf("no hit after start %d\n%s", round+1, d.log)
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		d.kill()
		d.start()
	}
	c := d.dial(t)
	st := d.stat(c)
	if n := st.Stores[0].Counters; n.TornBlocks+n.QuarantinedSlots+n.ReadErrors != 0 {
		t.Errorf("the last life found damage: %+v", n)
	}
	c.Close()
	close(stop)
	wg.Wait()
	d.stop()
	run(t, nil, onDir(d.dir, "check")...).want(t, 0)
}

// TestClientsKilled kills clients in the midst of whatever they do: the daemon goes
// on, another client sees nothing of it, and nothing of theirs is left.
func TestClientsKilled(t *testing.T) {
	rounds := 15
	if long {
		rounds = 300
	}
	seed := uint64(815)
	t.Logf("seed %d, %d kills", seed, rounds)
	rng := rand.New(rand.NewPCG(seed, 1))
	d := newDaemon(t)
	d.start()
	c := d.dial(t)
	defer c.Close()
	var hits atomic.Int64
	good, err := newServed(c, 99, &hits)
	if err != nil {
		t.Fatal(err)
	}
	open := func() (n int) { // sockets, and memory of clients
		dir := fmt.Sprintf("/proc/%d/fd", d.process.Process.Pid)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			target, _ := os.Readlink(filepath.Join(dir, e.Name())) // some are gone by now
			if strings.HasPrefix(target, "socket:") || strings.Contains(target, "memfd:") {
				n++
			}
		}
		return n
	}
	before := open()
	for range rounds {
		bad := exec.Command(os.Args[0])
		bad.Env = append(os.Environ(), clientMark+"="+d.socket)
		if err := bad.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Duration(20+rng.IntN(200)) * time.Millisecond); time.Now().Before(end); {
			if err := good.step(); err != nil {
				t.Error(err)
			}
		}
		_ = bad.Process.Kill()
		_ = bad.Wait()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		st := d.stat(c)
		s := st.Stores[0]
		if st.Connections == 1 && s.LeasedBlocks == 0 && s.FramesInUse == 0 && st.Drives[0].AdmittedBytes == 0 && open() == before {
			if n := s.Counters; n.QuarantinedSlots+n.ReadErrors+n.WriteErrors != 0 {
				t.Errorf("slots are lost: %+v", n)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("something is left: %d descriptors, %d before, %+v", open(), before, st)
		}
	}
	if !c.Connected() {
		t.Error("the good client lost its connection")
	}
	d.stop()
}

// beClient is the client that is killed.
func beClient(socket string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Path: socket})
	if err != nil {
		panic(err)
	}
	var hits atomic.Int64
	for w := range 3 {
		s, err := newServed(c, uint64(os.Getpid()+w), &hits)
		if err != nil {
			panic(err)
		}
		go func() {
			for {
				keys := [][]byte{fmt.Append(nil, "block-", s.rng.IntN(2000))}
				s.ns.Match(keys, client.MatchOptions{Lease: time.Minute})
				if err := s.step(); err != nil {
					panic(err)
				}
			}
		}()
	}
	select {}
}
