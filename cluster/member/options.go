package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"github.com/spillway-kv/spillway/cluster/journal"
)

// ErrOptions says that options contradict each other or are out of range.
var ErrOptions = errors.New("bad options of a pool's membership")

// DefaultPort is the one of gossip, TCP and UDP, where none is given.
const DefaultPort = 7421

// Bounds of options.
const SeedsMax = 64

// Resolver looks names up; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options configure a Gossip. Zero values mean the defaults named here.
type Options struct {
	// PoolID is checked on everything that arrives: at most PoolIDBytesMax bytes, not
	// empty. It is no secret; Key and KeyFile are.
	PoolID   string
	Identity Identity // from OpenIdentity
	Name     string   // unique in the pool, at most NameBytesMax bytes
	Zone     string   // where the node stands, at most ZoneBytesMax bytes; may be empty

	// Bind is where gossip is taken, TCP and UDP (":7421"); port 0 takes a free one.
	Bind string
	// Advertise is where others reach that: a host, with or without a port (the bound one). A
	// name is looked up once, at the start. Empty: the bound address, or the one from which
	// this machine reaches the seeds, or the one from which it reaches the world.
	Advertise string
	// DataAddress is where others reach this node's data connections, as host:port. Without
	// a host, or with that of every interface, it is the host of gossip.
	DataAddress string

	// Seeds are gossip addresses of some nodes of the pool, with or without a port
	// (DefaultPort); a name stands for all its addresses. They are tried for ever. None: this
	// node begins a pool.
	Seeds   []string
	Profile Profile // ProfileDefault

	KeyFile string // gossip keys in base64, one a line, the first encrypts; see Keys. A file without a key is refused
	Key     string // one more in base64, always tried

	ProtocolLow  uint8 // versions of the peers' protocol that this node speaks
	ProtocolHigh uint8

	Journal  *journal.Journal // hears of members; nil: nobody does
	Logger   *slog.Logger     // nil: none
	Resolver Resolver         // net.DefaultResolver

	tune func(*timing) // tests shorten times
}

func (o *Options) setDefaults() {
	if o.Bind == "" {
		o.Bind = fmt.Sprintf(":%d", DefaultPort)
	}
	if o.Profile == "" {
		o.Profile = ProfileDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
}

// Validate says what is wrong with the options. What it lets pass fits what gossip carries.
func (o *Options) Validate() error {
	for _, s := range []struct {
		what, text string
		bytesMax   int
		may        bool // be empty
	}{
		{"the pool's ID", o.PoolID, PoolIDBytesMax, false},
		{"the node's name", o.Name, NameBytesMax, false},
		{"the zone", o.Zone, ZoneBytesMax, true},
		{"the data address", o.DataAddress, AddressBytesMax, false},
	} {
		if len(s.text) > s.bytesMax || s.text == "" && !s.may {
			return fmt.Errorf("%w: %s has %d bytes, want 1 to %d", ErrOptions, s.what, len(s.text), s.bytesMax)
		}
		if strings.ContainsFunc(s.text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\uFFFD' }) {
			return fmt.Errorf("%w: %s %q has spaces or control characters", ErrOptions, s.what, s.text)
		}
	}
	switch {
	case o.Identity.ID == ID{} || o.Identity.Start == 0:
		return fmt.Errorf("%w: no identity", ErrOptions)
	case o.ProtocolLow > o.ProtocolHigh:
		return fmt.Errorf("%w: protocols %d to %d", ErrOptions, o.ProtocolLow, o.ProtocolHigh)
	case len(o.Seeds) > SeedsMax:
		return fmt.Errorf("%w: %d seeds, want at most %d", ErrOptions, len(o.Seeds), SeedsMax)
	}
	if _, err := o.Profile.timing(); err != nil {
		return err
	}
	return o.validateAddresses()
}

func (o *Options) validateAddresses() error {
	bind, err := ParseAddress(o.Bind, DefaultPort)
	if err != nil {
		return fmt.Errorf("%w: bind: %w", ErrOptions, err)
	}
	if _, ip := bind.IP(); !ip && bind.Host != "" {
		return fmt.Errorf("%w: bind %q: want an IP address of this machine, or none for all", ErrOptions, o.Bind)
	}
	if o.Advertise != "" {
		if a, err := ParseAddress(o.Advertise, DefaultPort); err != nil || a.Any() || a.Port == 0 {
			return fmt.Errorf("%w: advertise %q: want what others connect to, as 192.0.2.1:7421 (%w)", ErrOptions, o.Advertise, errors.Join(ErrAddress, err))
		}
	}
	if a, err := ParseAddress(o.DataAddress, 0); err != nil || a.Port == 0 {
		return fmt.Errorf("%w: data address %q: want what others connect to, as 192.0.2.1:7420 (%w)", ErrOptions, o.DataAddress, errors.Join(ErrAddress, err))
	}
	for _, seed := range o.Seeds {
		if a, err := ParseAddress(seed, DefaultPort); err != nil || a.Any() || a.Port == 0 {
			return fmt.Errorf("%w: seed %q: want an address or a name, as 192.0.2.1:7421 (%w)", ErrOptions, seed, errors.Join(ErrAddress, err))
		}
	}
	return nil
}
