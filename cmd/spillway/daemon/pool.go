package daemon

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spillway-kv/spillway/cluster/journal"
	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

// inPool is what makes this daemon a node of a pool, in the order in which it is made.
type inPool struct {
	lock      *os.File // of the pool's directory
	events    *journal.Journal
	transport *carriers
	gossip    *member.Gossip
	pool      *pool.Pool // the node's, once there is one: it starts and closes it, and with it the transport
}

// openPool makes this daemon a node of its pool, if it is to be in one: others hear of it,
// but are not served before there is a node. After an error nothing is left.
func (d *daemon) openPool() (err error) {
	c := &d.config.Pool
	if c.ID == "" {
		return nil
	}
	d.tell("joining pool %s", c.ID)
	p := &inPool{events: journal.New(d.log)}
	d.pool = p
	defer func() {
		if err != nil {
			d.pool, err = nil, errors.Join(err, p.abandon())
		}
	}()
	if p.lock, err = lockPoolDir(d.config.PoolDir()); err != nil {
		return err
	}
	id, err := member.OpenIdentity(d.config.PoolDir())
	if err != nil {
		return fmt.Errorf("who this node is (pool.dir): %w", err)
	}
	if p.transport, err = d.openCarriers(); err != nil {
		return err
	}
	o, err := d.memberOptions(id, p.transport.best.Address())
	if err != nil {
		return err
	}
	o.Journal = p.events
	if p.gossip, err = member.Start(o); err != nil {
		return fmt.Errorf("the pool's gossip: %w", err)
	}
	if p.pool, err = pool.New(d.poolOptions(id.ID, o.Name)); err != nil {
		return err
	}
	if who := c.Insecure(); who != "" {
		d.log.Warn("the pool is open: "+who, "docs", "docs/operations.md, keys and certificates")
	}
	self := p.gossip.Status()
	d.log.Info("a node of a pool", "pool", c.ID, "name", o.Name, "node", id.ID, "start", id.Start, "data", self.Self.Address, "transport", p.transport.best.Name(), "gossip", self.GossipAddress, "seeds", c.Seeds)
	return nil
}

func (d *daemon) transportOptions() tcp.Options {
	c := &d.config.Pool
	o := tcp.Options{Listen: c.Bind, Connections: c.Connections, Logger: d.log}
	if c.TLS() {
		o.TLS = &tcp.TLS{CA: c.TLSCA, Certificate: c.TLSCert, Key: c.TLSKey, CheckNames: c.TLSNames}
	}
	return o
}

// memberOptions are those of the gossip; data is where the transport listens.
func (d *daemon) memberOptions(id member.Identity, data net.Addr) (o member.Options, err error) {
	c := &d.config.Pool
	name, err := c.NodeName()
	if err != nil {
		return o, &config.Error{Text: err.Error()}
	}
	return member.Options{PoolID: c.ID, Identity: id, Name: name, Zone: c.Zone, Bind: c.GossipAddress(), Advertise: c.GossipAdvertised(),
		DataAddress: c.DataAddress(data.String()), Seeds: c.GossipSeeds(), Profile: member.Profile(c.Profile), KeyFile: c.Keyring,
		ProtocolLow: peer.VersionLow, ProtocolHigh: peer.VersionHigh, Logger: d.log}, nil
}

func (d *daemon) poolOptions(id member.ID, name string) pool.Options {
	c := &d.config.Pool
	return pool.Options{PoolID: c.ID, Node: id, Name: name, Dir: d.config.PoolDir(), Members: d.pool.gossip, Transport: d.pool.transport.best, Logger: d.log,
		MatchTime: c.MatchTime.Duration, GetTime: c.GetTime.Duration, PutTime: c.PutTime.Duration, Copies: c.Copies,
		PutQueueBytes: int64(d.config.Puts.QueueBytes), PutQueueTime: d.config.Puts.QueueTime.Duration,
		LocalPlacement: c.Placement == config.PlacementLocal, Journal: d.pool.events, Erase: pool.EraseOptions{Stores: d.storeFacts()},
		Move: pool.MoveOptions{BytesPerSecond: int64(c.DrainRate), HotReads: c.HotReads}}
}

// storeFacts tells a store that was in the pool before from one that was not.
func (d *daemon) storeFacts() (facts []pool.StoreFact) {
	for _, s := range d.stores {
		st := s.Stat()
		f := pool.StoreFact{Empty: st.Blocks == 0}
		_, _ = hex.Decode(f.ID[:], []byte(st.StoreID)) // the engine's own
		facts = append(facts, f)
	}
	return facts
}

// refused is closed when this node may be a member no more; without a pool it never is.
func (p *inPool) refused() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.gossip.Refused()
}

// reload takes over what may change, and reads the keyring again. Certificates are read by
// who uses them.
func (p *inPool) reload(c *config.Pool) error {
	if p == nil {
		return nil
	}
	if err := p.pool.SetMoves(int64(c.DrainRate), c.HotReads); err != nil {
		return fmt.Errorf("pool.drain_rate and pool.hot_reads stay: %w", err)
	}
	if err := p.gossip.Keys().Reload(); err != nil {
		return fmt.Errorf("the keyring cannot be taken over, the old keys stay: %w", err)
	}
	return nil
}

// leaving tells the others that this node stops: from then on they ask it for nothing.
func (p *inPool) leaving() {
	if p == nil {
		return
	}
	for _, m := range p.gossip.Members() {
		if m.Self {
			p.gossip.Announce(member.Leaving, m.CapacityBytes, m.FreeBytes)
		}
	}
}

// leaveTime bounds the farewell.
const leaveTime = 4 * time.Second

// leave takes leave of the pool. The node is closed.
func (p *inPool) leave() error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	return errors.Join(p.gossip.Leave(ctx), p.lock.Close())
}

// abandon gives up what was begun. A node that was made of it is closed.
func (p *inPool) abandon() error {
	if p == nil {
		return nil
	}
	var errs []error
	if p.transport != nil {
		errs = append(errs, p.transport.best.Close()) // again, where a pool has closed it
	}
	if p.gossip != nil {
		errs = append(errs, p.gossip.Close())
	}
	if p.lock != nil {
		errs = append(errs, p.lock.Close())
	}
	return errors.Join(errs...)
}

// startOperators makes the socket at which an operator of this machine sees and rules
// the pool; nil without a pool, or where its path would be too long.
func (d *daemon) startOperators() (stop func(), err error) {
	none := func() {}
	if d.config.Pool.ID == "" {
		return none, nil
	}
	path := d.config.Socket.Path + admin.SocketSuffix
	if len(path) > node.SocketPathMax {
		d.log.Warn("no socket for operators: its path would be too long; admin.address with a token does the same", "path", path)
		return none, nil
	}
	reserved, err := node.Reserve(path)
	if err != nil {
		return none, err
	}
	l, err := reserved.Listen(0o600, -1)
	if err != nil {
		reserved.Close()
		return none, err
	}
	server := admin.Start(l, d.view, admin.ServerOptions{Trusted: true, Logger: d.log})
	return func() {
		server.Close()
		reserved.Close()
	}, nil
}
