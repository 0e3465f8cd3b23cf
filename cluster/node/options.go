package node

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spillway-kv/spillway/cluster/pool"
	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/memory"
)

// Options configure a Node. Zero values mean the defaults named here.
type Options struct {
	// Stores are open stores, at least one; they stay the caller's, who closes
	// them after Close.
	Stores []*engine.Store
	// Memory is the tier above the stores; nil: none. It stays the caller's, who
	// closes it after Close.
	Memory *memory.Tier
	// Pool is the node's part in a pool of nodes, not started yet; nil: the node is alone.
	// From New on it is the node's, which closes it.
	Pool *pool.Pool
	// PeerFrameBytes bounds the memory through which blocks go from the stores to peers:
	// what several peers read at once shares it. Larger blocks are not sent. Default 128 MiB.
	PeerFrameBytes int64
	// Prefetch is the predictor of what is read into Memory ahead: "none" (default; only
	// what clients name), "window" or "model", see tiering/prefetch.
	Prefetch string
	// Server is what clients are told they talk to: name and version.
	Server string
	// Token, if not empty, is what every client must show.
	Token string
	// AllowUIDs, if not empty, are the users that may connect. Who can connect at
	// all, the socket's file mode decides.
	AllowUIDs []uint32
	// Namespaces are rules for namespaces, by name.
	Namespaces map[string]NamespaceRule
	// OnlyListed refuses namespaces without a rule.
	OnlyListed bool

	// ConnectionsMax bounds clients at once. Default 256.
	ConnectionsMax int
	// NamespacesMax bounds the namespaces that a connection has open. Default 64.
	NamespacesMax int
	// RequestsMax bounds the requests in flight of a connection. Default 256.
	RequestsMax int
	// KeysMax bounds the keys of a request. Default 16384.
	KeysMax int
	// RegionsMax and RegionBytesMax bound the regions of a connection. Default 64,
	// and the machine's memory.
	RegionsMax     int
	RegionBytesMax int64
	// LeasesMax bounds the leases that a connection holds; a match beyond finds
	// without leasing. Default 4096.
	LeasesMax int
	// PutQueueBytes and PutQueueTime bound what puts may wait for each store: a
	// put that would wait with more bytes, or longer by the measured write rate, is
	// dropped at once. Default 256 MiB and 2 s.
	PutQueueBytes int64
	PutQueueTime  time.Duration
	// Endurance is how many bytes the drive of a store may still be written, by the
	// store's directory, for a projection of its days. What is not here is unknown.
	Endurance map[string]int64
	// Admission says which puts are worth writing.
	Admission Admission
	// GPU is what models run on, by a name that tiering/model knows; empty: unknown. With it the
	// time of computing a prefix is the roofline of the model that a descriptor names.
	GPU string
	// Model is what runs in namespaces whose descriptors name no model that tiering/model
	// knows, on so many GPUs that share each layer (0: 1), in place of ComputePerToken; empty: unknown.
	Model          string
	TensorParallel int
	// ComputePerToken is the time to compute one token of a prompt, for namespaces of
	// which nothing better is known; 0: unknown.
	ComputePerToken time.Duration
	// InOrder serves the transfers of each drive in the order in which they come, for
	// measurements of what shares are worth. Default: not.
	InOrder bool
	// Patience is the deadline of requests that give none. Default 30 s.
	Patience time.Duration
	// StallTime is how long a client may leave its answers unread. Default 10 s.
	StallTime time.Duration
	// KeepRegionsUnpinned leaves clients' memory unregistered with the drives and the pool's
	// transport. Registered (the default) it costs less processor time and stays pinned.
	KeepRegionsUnpinned bool

	Logger *slog.Logger
}

// NamespaceRule is what an operator says about one namespace.
type NamespaceRule struct {
	Token      string // clients must show it to open the namespace; empty: none
	Share      int    // weight among namespaces when a drive is busy; 0 means 1
	QuotaBytes int64  // over all stores; 0: what the namespace has, NoQuota: none
	Admit      string // AdmitAll or AdmitSecond; empty: as Admission says
	WriteShare int    // weight in the write budget; 0: as Share
	// ComputePerToken is the time to compute one token of a prompt; 0: by Options.GPU,
	// or as Options.ComputePerToken says.
	ComputePerToken time.Duration
}

// NoQuota as a quota takes away the one that a namespace has.
const NoQuota = -1

// piecesPerKey is how many pieces a request may have for each of its KeysMax keys.
const piecesPerKey = 8

func (o *Options) setDefaults() {
	setDefault(&o.Server, "spillway")
	setDefault(&o.Prefetch, PrefetchNone)
	setDefault(&o.ConnectionsMax, 256)
	setDefault(&o.NamespacesMax, 64)
	setDefault(&o.RequestsMax, 256)
	setDefault(&o.KeysMax, 16384)
	setDefault(&o.RegionsMax, 64)
	setDefault(&o.RegionBytesMax, machineMemory())
	setDefault(&o.LeasesMax, 4096)
	setDefault(&o.PeerFrameBytes, 128<<20)
	setDefault(&o.PutQueueBytes, 256<<20)
	setDefault(&o.PutQueueTime, 2*time.Second)
	o.Admission.setDefaults()
	setDefault(&o.Patience, 30*time.Second)
	setDefault(&o.StallTime, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// ErrOptions says that an option is out of range; the message quotes it.
var ErrOptions = errors.New("bad options of a node")

// WithDefaults fills in what is zero.
func (o Options) WithDefaults() Options {
	o.setDefaults()
	return o
}

// Validate reports the first option that is out of range, ErrOptions. It asks for
// no store: New does.
func (o Options) Validate() error {
	o.setDefaults()
	for _, c := range []struct {
		name        string
		n, min, max int64
	}{
		{"connections", int64(o.ConnectionsMax), 1, 1 << 16},
		{"namespaces", int64(o.NamespacesMax), 1, 1 << 16},
		{"requests", int64(o.RequestsMax), 1, 1 << 16},
		{"keys", int64(o.KeysMax), 1, 1 << 17},
		{"regions", int64(o.RegionsMax), 1, 1 << 12},
		{"region bytes", o.RegionBytesMax, 4096, 1 << 50},
		{"leases", int64(o.LeasesMax), 0, 1 << 20},
		{"peer frame bytes", o.PeerFrameBytes, engine.BlockBytesMin, 1 << 40},
		{"put queue bytes", o.PutQueueBytes, engine.BlockBytesMin, 1 << 40},
		{"put queue time (ns)", int64(o.PutQueueTime), int64(time.Millisecond), int64(time.Hour)},
		{"patience (ns)", int64(o.Patience), int64(time.Millisecond), int64(time.Hour)},
		{"stall time (ns)", int64(o.StallTime), int64(time.Millisecond), int64(time.Hour)},
	} {
		if c.n < c.min || c.n > c.max {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrOptions, c.name, c.n, c.min, c.max)
		}
	}
	if err := o.Admission.validate(); err != nil {
		return err
	}
	if _, ok := newPredictor(o.Prefetch); !ok {
		return fmt.Errorf("%w: prefetch is %q, want %s, %s or %s", ErrOptions, o.Prefetch, PrefetchModel, PrefetchWindow, PrefetchNone)
	}
	if err := o.validateCompute(); err != nil {
		return err
	}
	for name, rule := range o.Namespaces {
		if rule.ComputePerToken < 0 {
			return fmt.Errorf("%w: namespace %q computes a token in %v", ErrOptions, name, rule.ComputePerToken)
		}
		if !admits(rule.Admit) || rule.WriteShare < 0 || rule.WriteShare > 1000 {
			return fmt.Errorf("%w: namespace %q has admit %q (want all or second) and write share %d (want 1 to 1000)", ErrOptions, name, rule.Admit, rule.WriteShare)
		}
		if rule.Share < 0 || rule.Share > 1000 || rule.QuotaBytes < NoQuota {
			return fmt.Errorf("%w: namespace %q has share %d (want 1 to 1000) and quota %d", ErrOptions, name, rule.Share, rule.QuotaBytes)
		}
	}
	return nil
}

// limits are what a connection is told. All stores' drives can do aligned
// transfers at the page size.
func (o *Options) limits() wire.Limits {
	return wire.Limits{FrameBytes: wire.FrameBytesMax, Keys: uint32(o.KeysMax), Pieces: uint32(o.KeysMax * piecesPerKey),
		Requests: uint32(o.RequestsMax), Regions: uint32(o.RegionsMax), RegionBytes: uint64(o.RegionBytesMax),
		AlignBytes: pageBytes, PutQueueBytes: uint64(o.PutQueueBytes)}
}

const pageBytes = 4096
