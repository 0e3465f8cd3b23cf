package pool_test

import (
	"context"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// teller is a peer that tells of erasures without end.
type teller struct {
	link transport.Link
	seq  map[uint32]uint64 // of each origin, the latest
}

func tellerOf(g *grounds, site int) *teller {
	n, err := g.net.Node("teller")
	if err != nil {
		g.t.Fatal(err)
	}
	hello := transport.Hello{PoolID: "grounds", Node: nodeID(77), Name: "teller", ProtocolLow: 1, ProtocolHigh: 1}
	link, err := n.Dial(context.Background(), g.sites[site].address, hello)
	if err != nil {
		g.t.Fatal(err)
	}
	return &teller{link, map[uint32]uint64{}}
}

func toldSpace(n int) (id [32]byte) {
	binary.BigEndian.PutUint32(id[:], uint32(n)+1)
	return id
}

// told is a namespace and who has erased in it.
type told struct {
	space  int
	origin uint32
}

// tell tells of floors, and of erasures that are not known by name.
func (l *teller) tell(floors []int, pairs []told) error {
	var m peer.Merge
	before := maps.Clone(l.seq)
	for _, n := range floors {
		m.Floors = append(m.Floors, peer.Floor{Namespace: toldSpace(n), Incarnation: 2})
	}
	groups := map[uint32]*peer.Group{}
	for _, p := range pairs {
		g := groups[p.origin]
		if g == nil {
			var id member.ID
			binary.BigEndian.PutUint32(id[:], p.origin+1)
			g = &peer.Group{Origin: id, After: l.seq[p.origin]}
			groups[p.origin] = g
		}
		l.seq[p.origin]++
		g.Through = l.seq[p.origin]
		g.Lost = append(g.Lost, peer.Lost{Namespace: toldSpace(p.space), Seq: g.Through})
	}
	for _, g := range groups {
		m.Groups = append(m.Groups, *g)
	}
	slices.SortFunc(m.Groups, func(a, b peer.Group) int { return slices.Compare(a.Origin[:], b.Origin[:]) })
	err := l.say(&m)
	if err != nil {
		l.seq = before
	}
	return err
}

func (l *teller) say(m *peer.Merge) error {
	_, err := l.link.Call(context.Background(), peer.KindDelete, peer.AppendMerge(nil, m))
	return err
}

// TestRememberedIsBounded: whatever others tell of erasures, what a node remembers of them
// has its bounds; and what it cannot remember is not lost: no block is left that it could be
// meant for, who told it hears that it was not taken in, and what is known already goes on.
func TestRememberedIsBounded(t *testing.T) {
	for kind, c := range map[string]struct {
		bound int // of pool.RememberedMax
		batch func(from, n int) (floors []int, pairs []told)
	}{
		"floors": {0, func(from, n int) (floors []int, _ []told) {
			for i := range n {
				floors = append(floors, from+i)
			}
			return floors, nil
		}},
		"namespaces": {0, func(from, n int) (_ []int, pairs []told) {
			for i := range n {
				pairs = append(pairs, told{from + i, 7})
			}
			return nil, pairs
		}},
		"nodes": {1, func(from, n int) (_ []int, pairs []told) {
			for i := range n {
				pairs = append(pairs, told{1, uint32(from + i)})
			}
			return nil, pairs
		}},
		"pairs": {2, func(from, n int) (_ []int, pairs []told) {
			for i := range n {
				pairs = append(pairs, told{(from + i) / 32, uint32(from+i) % 32})
			}
			return nil, pairs
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			onGrounds(t, 21, 2, 64, func(t *testing.T, g *grounds) {
				for k := 1; k <= 4; k++ {
					g.everywhere(k)
				}
				if missing, ok := g.erase(1, 1); !ok || missing != 0 {
					t.Fatalf("%d have not confirmed, %v", missing, ok)
				}
				rng := rand.New(rand.NewPCG(g.seed, 9))
				teller, most := tellerOf(g, 0), pool.RememberedMax
				there, err := 0, error(nil)
				for refused := 0; refused < 3; {
					n := 1 + rng.IntN(most[c.bound]/4)
					if refused == 0 && !g.has(2)[0] {
						t.Fatal("a block has gone before the bound")
					}
					was := g.sites[0].running().pool.Remembered()
					if err = teller.tell(c.batch(there, n)); err == nil {
						there += n
					} else {
						refused++
					}
					is := g.sites[0].running().pool.Remembered()
					if fits := was[c.bound]+n <= most[c.bound]; fits != (err == nil) {
						t.Fatalf("%d and %d more of at most %d: %v", was[c.bound], n, most[c.bound], err)
					}
					for i := range is {
						if is[i] > most[i] || err != nil && is[i] != was[i] {
							t.Fatalf("%v are remembered after %v, at most %v; %v", is, was, most, err)
						}
					}
				}
				if !strings.Contains(err.Error(), pool.ErrErasures.Error()) {
					t.Errorf("the error is %v", err)
				}
				if has := g.has(2); has[0] || !has[1] {
					t.Errorf("who cannot remember what was erased has a block: %v", has)
				}
				g.everywhere(9) // as its clients may put it
				if missing, ok := g.erase(1, 9); !ok || missing != 0 || count(g.has(9)) != 0 {
					t.Errorf("%d have not confirmed, %v, %v have it", missing, ok, g.has(9))
				}
				time.Sleep(10 * time.Second) // both have merged
				if a, b := g.sites[0].running().pool.Remembered(), g.sites[1].running().pool.Remembered(); a != b || !g.has(2)[1] {
					t.Errorf("one remembers %v, the other %v", a, b)
				}
				events, _ := g.sites[0].running().journal.After(0, 1000)
				events = slices.DeleteFunc(events, func(e journal.Event) bool { return !strings.Contains(e.Text, "more than this node can remember") })
				if st := g.stat(0); len(events) != 1 || events[0].Times != 1 || st.Overfull != 3 {
					t.Errorf("%d refused, the operator hears %+v", st.Overfull, events)
				}
				was := g.sites[0].running().pool.Remembered()
				g.sites[0].stop()
				g.sites[0].start()
				if is := g.sites[0].running().pool.Remembered(); is != was {
					t.Errorf("after a start %v are remembered, %v before", is, was)
				}
			})
		})
	}
}

// fill tells of as many floors as there is room for.
func (l *teller) fill(p *process) error {
	var all []int
	for i := range pool.RememberedMax[0] - p.pool.Remembered()[0] {
		all = append(all, i)
	}
	return l.tell(all, nil)
}

// TestRaisedWithoutRoom: a drop among what cannot be remembered takes its namespace to the new
// incarnation all the same, and is counted as a drop that was learned.
func TestRaisedWithoutRoom(t *testing.T) {
	onGrounds(t, 22, 1, 64, func(t *testing.T, g *grounds) {
		g.everywhere(1)
		teller, site := tellerOf(g, 0), g.sites[0].running()
		if err := teller.fill(site); err != nil || !g.has(1)[0] {
			t.Fatal(err, g.has(1))
		}
		m := peer.Merge{Floors: []peer.Floor{{Namespace: site.shelf.id, Incarnation: 2}}}
		if err := teller.say(&m); err == nil || !strings.Contains(err.Error(), pool.ErrErasures.Error()) {
			t.Errorf("one namespace more: %v", err)
		}
		if st := g.stat(0); st.Overfull != 1 || st.Raised != 1 || st.Cleared != 0 || site.Incarnation() != 2 || g.has(1)[0] {
			t.Errorf("incarnation %d, has it %v: %+v", site.Incarnation(), g.has(1), st)
		}
	})
}

// TestArrivesWithoutRoom: a copy that is being written while a node gives up all its blocks
// is given up, too.
func TestArrivesWithoutRoom(t *testing.T) {
	onGrounds(t, 23, 2, 64, func(t *testing.T, g *grounds) {
		g.everywhere(1)
		teller, site := tellerOf(g, 0), g.sites[0].running()
		if err := teller.fill(site); err != nil {
			t.Fatal(err)
		}
		if err := site.Delete(g.sites[0].ids(1)); err != nil || g.has(1)[0] {
			t.Fatal(err, g.has(1))
		}
		began := make(chan struct{})
		site.arrived = func(*pool.Arrival) {
			close(began)
			time.Sleep(100 * time.Millisecond)
		}
		var carried sync.WaitGroup
		carried.Go(func() { g.carry(1, 0, 1) })
		<-began
		err := teller.tell([]int{pool.RememberedMax[0]}, nil)
		carried.Wait()
		if err == nil || g.carried != 1 || g.has(1)[0] {
			t.Errorf("told more than there is room for: %v; %d arrived, has it %v", err, g.carried, g.has(1))
		}
	})
}
