package pair

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
)

// space is a namespace with the blocks of one daemon, which stay there.
type space struct {
	name   string
	bytes  int // of a block
	blocks int
}

func (s space) key(i int) []byte { return fmt.Appendf(nil, "%s-%d", s.name, i) }

func (s space) keys() (keys [][]byte) {
	for i := range s.blocks {
		keys = append(keys, s.key(i))
	}
	return keys
}

func (s space) seed(i int) uint64 {
	seed := uint64(len(s.name))<<40 + uint64(s.bytes)<<8 + uint64(i+1)
	for _, c := range []byte(s.name) {
		seed = (seed ^ uint64(c)) * 0x9e3779b97f4a7c15
	}
	return seed | 1
}

// fill writes words that no other seed gives.
func fill(b []byte, seed uint64) {
	for at := 0; at+8 <= len(b); at += 8 {
		binary.LittleEndian.PutUint64(b[at:], seed+uint64(at)*0x9e3779b97f4a7c15)
	}
}

// differs is the first place where b is not what fill made of seed, -1: none.
func differs(b []byte, seed uint64) int {
	for at := 0; at+8 <= len(b); at += 8 {
		if binary.LittleEndian.Uint64(b[at:]) != seed+uint64(at)*0x9e3779b97f4a7c15 {
			return at
		}
	}
	return -1
}

func (s space) open(t *testing.T, c *client.Client) *client.Namespace {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ns, err := c.Namespace(ctx, map[string]any{"name": s.name, "block_bytes": s.bytes}, "")
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// put stores all blocks at a daemon.
func (s space) put(t *testing.T, d *daemon) {
	t.Helper()
	c := d.dial()
	defer c.Close()
	ns := s.open(t, c)
	depth := min(s.blocks, max(1, (64<<20)/s.bytes))
	region, err := c.Allocate(int64(depth * s.bytes))
	if err != nil {
		t.Fatal(err)
	}
	for from := 0; from < s.blocks; from += depth {
		var blocks []client.Block
		for i := from; i < min(from+depth, s.blocks); i++ {
			place := region.Row(i-from, s.bytes)
			fill(region.Bytes()[place.OffsetBytes:][:s.bytes], s.seed(i))
			blocks = append(blocks, client.Block{Key: s.key(i), Places: []client.Place{place}})
		}
		job := ns.Put(blocks, client.PutOptions{Depth: uint32(from), Timeout: time.Minute})
		for i, status := range job.Wait().Statuses {
			if status != client.Stored && status != client.Present { // present: from an earlier life
				t.Fatalf("%s: block %d of %d bytes: put says %v", s.name, from+i, s.bytes, status)
			}
		}
	}
}
