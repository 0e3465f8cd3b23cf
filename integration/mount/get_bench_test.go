package mount

import (
	"fmt"
	"testing"

	"github.com/spillway-kv/spillway/client"
	tier "github.com/spillway-kv/spillway/tiering/memory"
)

// BenchmarkGet reads blocks of 16 KiB over the socket, from the page cache, and from
// memory.
func BenchmarkGet(b *testing.B) {
	for _, memory := range []bool{false, true} {
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprintf("memory=%v/blocks=%d", memory, n), func(b *testing.B) {
				r := newRig(b, 1)
				if memory {
					r.options.Memory = newTier(b, tier.Options{Bytes: 8 << 20, Mode: tier.Inclusive})
				}
				r.start()
				c := r.dial()
				ns, p := open(b, c, "a"), newPool(b, c, n)
				p.put(ns, 0, n, client.Stored)
				blocks := p.blocks(0, n)
				b.SetBytes(int64(n * blockBytes))
				b.ReportAllocs()
				for b.Loop() {
					if got := ns.Get(blocks, client.GetOptions{}).Wait(); got.Prefix != n {
						b.Fatal(got.Statuses)
					}
				}
			})
		}
	}
}
