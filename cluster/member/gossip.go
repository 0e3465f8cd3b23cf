package member

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Errors for which a node must stop: it may not be a member of its pool.
var (
	// ErrDuplicate: another live node has this one's name or ID, and had it first.
	ErrDuplicate = errors.New("another live node has this name or ID")
	// ErrForgotten: an operator had this life of the node forgotten.
	ErrForgotten = errors.New("this node was forgotten; start it again to rejoin")
	// ErrRepeated: the others have heard this life of the node take its leave before. Its
	// directory is an old copy, so that starts are counted twice.
	ErrRepeated = errors.New("this node has left the pool in a later state of its pool directory, which was put back to an old copy; start it again to rejoin, or remove the directory for a new node")
	// ErrUnreachable: others were reached, but none of them reached this node.
	ErrUnreachable = errors.New("no member reaches this node")
)

// Gossip is a Membership over hashicorp/memberlist: nodes probe each other and pass on what
// they hear. All methods may be called from many goroutines.
//
// A record of each other member is kept here, fed by the library's callbacks, which come
// while the library holds its locks. Therefore mu is never held while the library is
// called, and callbacks take nothing but mu and wait for nobody.
type Gossip struct {
	o          Options
	log        *slog.Logger
	t          timing
	keys       *Keys
	list       *memberlist.Memberlist
	broadcasts *memberlist.TransmitLimitedQueue // our own messages
	traffic    traffic
	bound      netip.AddrPort // where gossip is taken
	advertise  netip.AddrPort // where others reach that
	others     atomic.Int64   // members but this one, for the library's arithmetic

	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	loops    sync.WaitGroup
	joins    sync.WaitGroup // under way; joined only while leaving is not set
	refusedC chan struct{}  // closed when this node must stop
	wake     chan struct{}  // there may be something to announce
	hurry    chan struct{}  // there may be somebody to join
	disputes chan dispute
	answers  chan struct{} // room for answers under way
	room     chan struct{} // for joins under way

	announcing sync.Mutex // held while the library announces; guards the next two
	left       bool       // nothing is announced any more
	told       []byte     // what the library was told last
	ending     sync.Once

	mu          sync.Mutex // guards what follows
	self        Member     // as last announced by the node itself
	live        map[string]*record
	gone        map[ID]*record
	overs       map[life]overMark
	changed     chan struct{}
	refusals    map[refusalKey]*RefusalStatus
	refusalAt   map[refusalKey]time.Time
	counters    Counters
	logDropped  atomic.Int64
	seeds       []*seed
	pending     map[uint64]chan ask
	standing    standing
	contested   bool                    // somewhere this node's name stands with another address
	disputed    map[netip.AddrPort]bool // addresses of disputes that are not settled
	leaving     bool                    // nobody is joined any more
	agreeNext   time.Time               // when the others are asked again to take this node's address in
	reached     bool                    // somebody has answered over this node's advertised address
	sentOnly    time.Time               // since when others were reached and none of them has answered; zero: not so
	refused     error
	announced   metadata // what the library was given last
	announcedAt time.Time
}

var _ Membership = (*Gossip)(nil)

// Start begins to be a member of a pool. It returns when others can reach this node;
// seeds are tried beside it, for ever. Options that do not fit, keys that do not and
// addresses that are taken are errors. See Refused for what may come later.
func Start(o Options) (*Gossip, error) {
	o.setDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t, err := o.Profile.timing()
	if err != nil {
		return nil, err
	}
	if o.tune != nil {
		o.tune(&t)
	}
	keys, err := openKeys(o.KeyFile, o.Key)
	if err != nil {
		return nil, err
	}
	g := newGossip(o, t, keys)
	if err := g.open(); err != nil {
		g.stop()
		return nil, err
	}
	for _, loop := range []func(){g.announceLoop, g.joinLoop, g.probeLoop, g.settleLoop, g.endLoop} {
		g.loops.Go(loop)
	}
	return g, nil
}

func newGossip(o Options, t timing, keys *Keys) *Gossip {
	g := &Gossip{
		o: o, log: o.Logger, t: t, keys: keys,
		refusedC: make(chan struct{}), wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		disputes: make(chan dispute, disputesMax), answers: make(chan struct{}, answersMax), room: make(chan struct{}, joinsAtOnce),
		live: map[string]*record{}, gone: map[ID]*record{}, overs: map[life]overMark{}, changed: make(chan struct{}),
		refusals: map[refusalKey]*RefusalStatus{}, refusalAt: map[refusalKey]time.Time{}, pending: map[uint64]chan ask{}, disputed: map[netip.AddrPort]bool{},
		self: Member{ID: o.Identity.ID, Start: o.Identity.Start, Name: o.Name, Zone: o.Zone,
			ProtocolLow: o.ProtocolLow, ProtocolHigh: o.ProtocolHigh, Self: true},
	}
	g.ctx, g.stop = context.WithCancel(context.Background())
	g.broadcasts = &memberlist.TransmitLimitedQueue{RetransmitMult: 4, NumNodes: func() int { return int(g.others.Load()) + 1 }}
	for _, text := range o.Seeds {
		a, _ := ParseAddress(text, DefaultPort) // validated
		g.seeds = append(g.seeds, &seed{text: text, address: a})
	}
	keys.changed = func() { poke(g.wake) }
	keys.roster = g.roster
	return g
}

// open binds, chooses what to advertise and starts the library.
func (g *Gossip) open() error {
	bind, _ := ParseAddress(g.o.Bind, DefaultPort) // validated
	tcp, udp, err := listen(bind)
	if err != nil {
		return fmt.Errorf("gossip on %s: %w", bind, err)
	}
	bound := tcp.Addr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
	g.bound = netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port())
	if g.advertise, err = chooseAdvertise(g.ctx, &g.o, g.bound); err == nil {
		err = g.setDataAddress()
	}
	if err != nil {
		return errors.Join(err, tcp.Close(), udp.Close())
	}
	network := newNetwork(&network{label: labelOf(g.o.PoolID), encrypted: g.keys.Encrypted(), turned: g.turnedAway,
		advertise: g.advertise, counters: &g.traffic}, tcp, udp)
	c := g.t.config()
	d := delegate{g}
	c.Name, c.Transport, c.Label, c.Keyring = g.o.Name, network, network.label, g.keys.ring
	c.AdvertisePort, c.BindPort = int(g.advertise.Port()), int(g.advertise.Port())
	c.Delegate, c.Events, c.Conflict, c.Merge, c.Ping, c.Alive = d, d, d, d, d, d
	c.EnableCompression = false // small packets do not get smaller
	c.Logger = log.New(&libraryLog{log: g.log, suspected: g.suspect, mismatch: g.mismatch, dropped: &g.logDropped, kinds: map[string]*lineKind{}}, "", 0)
	if g.list, err = memberlist.Create(c); err != nil {
		return errors.Join(err, network.Shutdown())
	}
	network.begin()
	return nil
}

// setDataAddress completes the address of data connections with the host of gossip.
func (g *Gossip) setDataAddress() error {
	a, err := ParseAddress(g.o.DataAddress, 0)
	if err != nil {
		return err
	}
	if a.Any() {
		a.Host = g.advertise.Addr().String()
	}
	g.self.Address = a.String()
	if len(g.self.Address) > AddressBytesMax {
		return fmt.Errorf("%w: the data address has %d bytes, want at most %d", ErrOptions, len(g.self.Address), AddressBytesMax)
	}
	return nil
}

// poke wakes whoever waits for c, now or at his next look.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Keys are the node's gossip keys.
func (g *Gossip) Keys() *Keys { return g.keys }

// Close ends the membership without a farewell: others will find out, and look for this
// node. It waits for all that Start began, but not for what the library has under way,
// which ends by itself within a probe interval.
func (g *Gossip) Close() error {
	g.ending.Do(func() {
		g.mu.Lock()
		g.stop() // after it nothing is spawned
		g.mu.Unlock()
		g.endLibrary()
		g.loops.Wait()
	})
	return nil
}

// Bounds of Leave.
const (
	leaveTime     = 4 * time.Second
	farewellTime  = 2 * time.Second
	farewellsOnce = 8
)

// Leave tells the others that this node goes in order, and closes. It ends soon after ctx
// does, and within 4 s in any case, whether others hear it or not.
func (g *Gossip) Leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	g.announcing.Lock()
	first := !g.left
	g.left = true
	g.announcing.Unlock()
	if first {
		g.endJoins(ctx)
		g.farewell(ctx)
		if until, _ := ctx.Deadline(); time.Until(until) > 0 {
			if err := g.list.Leave(time.Until(until)); err != nil {
				g.log.Info("not everybody may have heard that this node leaves", "err", err)
			}
		}
	}
	return g.Close()
}
