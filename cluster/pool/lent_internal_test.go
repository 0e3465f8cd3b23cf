package pool

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
)

// TestLentShares: whatever nodes ask for and give back, all together have so many leases
// and no more, and one that asks without end leaves room to every other.
func TestLentShares(t *testing.T) {
	for greedy := range 6 {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(greedy), 3))
			l, released, kept := &lentLeases{}, 0, 0
			ask := func(node int, d time.Duration) uint64 {
				number := l.keep(member.ID{byte(node)}, d, func() { released++ })
				if number != 0 {
					kept++
				}
				return number
			}
			for range 3 * lentMax { // nodes 1 to greedy, in no order
				if greedy > 0 {
					ask(1+rng.IntN(greedy), leaseMax)
				}
			}
			if n := l.len(); n > lentMax || greedy > 0 && n < lentMax/2 {
				t.Errorf("%d greedy nodes have %d leases", greedy, n)
			}
			share := lentMax / (greedy + 1)
			for node := 1; node <= greedy; node++ {
				if n := l.of[member.ID{byte(node)}]; n < share-share/20 || n > share+share/20 {
					t.Errorf("of %d greedy nodes one has %d leases, want about %d", greedy, n, share)
				}
			}
			var mine []uint64 // of a modest one
			for range lentMax / 16 {
				if number := ask(100, time.Second); number != 0 {
					mine = append(mine, number)
				}
			}
			if len(mine) < lentMax/16 {
				t.Errorf("beside %d greedy nodes another gets only %d leases", greedy, len(mine))
			}
			l.end(member.ID{99}, mine[0]) // another's
			before := released
			for _, number := range mine[:100] {
				l.end(member.ID{100}, number)
				l.end(member.ID{100}, number)
			}
			if released != before+100 || l.of[member.ID{100}] != len(mine)-100 {
				t.Errorf("%d were released of 100, %d are left", released-before, l.of[member.ID{100}])
			}
			time.Sleep(leaseMax + time.Second)
			for range lentMax { // what has ended is room again
				ask(101, leaseMax)
			}
			if n := l.of[member.ID{101}]; n != lentMax/2 {
				t.Errorf("after all have ended one has %d leases", n)
			}
			l.releaseAll()
			if l.len() != 0 || len(l.of) != 0 || ask(1, time.Second) == 0 {
				t.Error("after the end of all there are some, or no room")
			}
		})
	}
}
