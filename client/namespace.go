package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// Namespace is a model's private key space in the pool.
type Namespace struct {
	c          *Client
	descriptor []byte
	token      string
	blockBytes int
	id         [32]byte
}

// Namespace opens the namespace of a descriptor: anything that encoding/json makes
// a descriptor of (engine.Descriptor, a map, json.RawMessage). The first time it
// needs the daemon, and waits for it while ctx lasts; after that the namespace is
// opened again by itself.
func (c *Client) Namespace(ctx context.Context, descriptor any, token string) (*Namespace, error) {
	raw, err := json.Marshal(descriptor)
	if err != nil {
		return nil, fmt.Errorf("descriptor: %w", err)
	}
	ns := &Namespace{c: c, descriptor: raw, token: token}
	for err = errLost; errors.Is(err, errLost); {
		if err := c.Await(ctx); err != nil {
			return nil, err
		}
		err = c.openFirst(ctx, ns)
	}
	if err != nil {
		return nil, err
	}
	return ns, nil
}

// openFirst opens a namespace on the connection there is, and keeps it for those to come.
func (c *Client) openFirst(ctx context.Context, ns *Namespace) error {
	c.opening.Lock()
	defer c.opening.Unlock()
	l := c.current()
	if l == nil {
		return errLost
	}
	if err := l.openNamespace(ctx, ns); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.spaces = append(c.spaces, ns)
	return nil
}

// BlockBytes is the size of every block.
func (ns *Namespace) BlockBytes() int { return ns.blockBytes }

// ID is the SHA-256 of the canonical descriptor.
func (ns *Namespace) ID() [32]byte { return ns.id }

func (l *link) openNamespace(ctx context.Context, ns *Namespace) error {
	body, err := l.ask(ctx, wire.TypeOpenNamespace, &wire.OpenNamespace{Descriptor: ns.descriptor, Token: ns.token}, nil)
	if err != nil {
		return err
	}
	m, err := wire.ParseNamespaceOpened(body)
	if err != nil {
		return err
	}
	if ns.blockBytes == 0 {
		ns.blockBytes, ns.id = int(m.BlockBytes), m.ID
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spaces[ns] = m.Namespace
	return nil
}

// space is the connection, if there is one that knows the namespace, and its number there.
func (ns *Namespace) space() (l *link, number uint32, ok bool) {
	if l = ns.c.current(); l == nil {
		return nil, 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	number, ok = l.spaces[ns]
	return l, number, ok
}

// MatchOptions govern one Match.
type MatchOptions struct {
	Group    uint32
	Lease    time.Duration // keeps what is found from eviction for so long
	Trailing int           // also the longest run at the end, up to so many
	Compute  time.Duration // time to compute one block: what would not load quicker is not here; 0: whatever is here
	Worth    bool          // the same, with the time that the daemon knows of the namespace's model; Compute goes before
}

func (o *MatchOptions) computeUS() uint32 {
	if o.Worth && o.Compute <= 0 {
		return wire.ComputeKnown
	}
	return min(microseconds(o.Compute), wire.ComputeKnown-1)
}

// Matched is what a Match found.
type Matched struct {
	Prefix   int // keys that are here from the first on
	Trailing int // at the end, at most MatchOptions.Trailing
	Leased   int // under the lease
	lease    uint64
	bitmap   []byte
	link     *link
}

// Present reports whether key i is here.
func (m *Matched) Present(i int) bool {
	return i/8 < len(m.bitmap) && m.bitmap[i/8]&(1<<(i%8)) != 0
}

// Release ends the lease early. Without one it does nothing.
func (m *Matched) Release() {
	if m.lease != 0 {
		m.link.start(wire.TypeRelease, wire.Wide(m.lease), nil)
	}
}

// Match says which blocks are here; none while there is no daemon.
func (ns *Namespace) Match(keys [][]byte, o MatchOptions) Matched {
	checkKeys(keys)
	l, number, ok := ns.space()
	if !ok {
		return Matched{}
	}
	lease := min(max((o.Lease+time.Millisecond-1).Milliseconds(), 0), math.MaxUint32)
	body, err := l.ask(context.Background(), wire.TypeMatch, &wire.Match{Namespace: number, Group: o.Group, ComputeUS: o.computeUS(), LeaseMS: uint32(lease),
		Trailing: uint32(o.Trailing), Keys: wire.MakeKeys(keys)}, nil)
	if err != nil {
		ns.note("match", err)
		return Matched{}
	}
	m, err := wire.ParseMatchAnswer(body)
	if err != nil || int(m.Keys) != len(keys) {
		l.end(fmt.Errorf("%w: the answer to a match of %d keys", wire.ErrMalformed, len(keys)))
		return Matched{}
	}
	return Matched{Prefix: int(m.Prefix), Trailing: int(m.Trailing), Leased: int(m.Leased), lease: m.Lease, bitmap: m.Bitmap, link: l}
}

// Touch makes blocks young again and returns how many are here.
func (ns *Namespace) Touch(group uint32, keys [][]byte) int {
	n, err := ns.counted(context.Background(), wire.TypeTouch, group, keys)
	if err != nil {
		ns.note("touch", err)
	}
	return n
}

// Prefetch has blocks, given root first, read into the daemon's memory ahead of a Get,
// and returns at once how many will be. None are where the daemon has no memory tier.
func (ns *Namespace) Prefetch(group uint32, keys [][]byte) int {
	n, err := ns.counted(context.Background(), wire.TypePrefetch, group, keys)
	var refused *wire.ErrorAnswer
	if err != nil && !(errors.As(err, &refused) && refused.Code == wire.CodeUnsupported) {
		ns.note("prefetch", err)
	}
	return n
}

// Delete removes blocks durably and returns how many were here. Unlike data calls
// it tells when it could not.
func (ns *Namespace) Delete(ctx context.Context, group uint32, keys [][]byte) (int, error) {
	return ns.counted(ctx, wire.TypeDelete, group, keys)
}

func (ns *Namespace) counted(ctx context.Context, t wire.Type, group uint32, keys [][]byte) (int, error) {
	checkKeys(keys)
	l, number, ok := ns.space()
	if !ok {
		return 0, ns.c.notConnected()
	}
	body, err := l.ask(ctx, t, &wire.KeyList{Namespace: number, Group: group, Keys: wire.MakeKeys(keys)}, nil)
	if err != nil {
		return 0, err
	}
	n, err := wire.ParseNumber(body)
	return int(n), err
}

// Drop erases the namespace's blocks, for all clients; the namespace stays open, empty.
func (ns *Namespace) Drop(ctx context.Context) error {
	l, number, ok := ns.space()
	if !ok {
		return ns.c.notConnected()
	}
	_, err := l.ask(ctx, wire.TypeDropNamespace, wire.Number(number), nil)
	return err
}

func (ns *Namespace) note(what string, err error) {
	if !errors.Is(err, errLost) {
		ns.c.log.Warn("the daemon refused a request", "request", what, "cause", err)
	}
}

// checkKeys panics on keys that no pool takes.
func checkKeys(keys [][]byte) {
	for i, k := range keys {
		if len(k) == 0 || len(k) > wire.KeyBytesMax {
			panic(fmt.Sprintf("client: key %d has %d bytes, want 1 to %d", i, len(k), wire.KeyBytesMax))
		}
	}
}
