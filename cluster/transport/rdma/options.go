package rdma

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// ErrOptions says that options are out of range.
var ErrOptions = errors.New("bad options of the rdma transport")

// Options configure a Transport. Zero values mean the defaults named here.
type Options struct {
	// Control carries the calls. The Transport closes it.
	Control transport.Transport
	// Fabric has the devices.
	Fabric fabric.Fabric

	Ports        []string      // names of devices ("mlx5_0") or ports ("mlx5_0:1") to use; empty: all active ones
	GIDIndex     int           // of the address to use on Ethernet ports; 0: the first RoCE v2 address, IPv4 before IPv6
	Path         fabric.Path   // zero fields: timeout 14, 5 retries, hop limit 64
	PieceBytes   int           // largest write (1 MiB)
	PostedBytes  int64         // posted at once on a queue pair; what is behind can be taken back at once (16 MiB)
	LandingBytes int64         // memory of our own on each side, for blocks of memory that cannot be registered (64 MiB)
	InFlight     int64         // bytes of blocks that one link asks for at once (128 MiB)
	FenceTime    time.Duration // how long a fence waits for the peer's word before it destroys queue pairs (500ms)
	OpenTime     time.Duration // how long a session may take to be made, the probe not counted (2s)
	PauseMin     time.Duration // between two sessions, doubled after each that brought no block (1s)
	PauseMax     time.Duration // (1m)
	Logger       *slog.Logger  // nil: none
}

func (o *Options) setDefaults() {
	if o.Path.Timeout == 0 {
		o.Path.Timeout = 14
	}
	if o.Path.Retries == 0 {
		o.Path.Retries = 5
	}
	if o.Path.HopLimit == 0 {
		o.Path.HopLimit = 64
	}
	if o.PieceBytes == 0 {
		o.PieceBytes = 1 << 20
	}
	if o.PostedBytes == 0 {
		o.PostedBytes = 16 << 20
	}
	if o.LandingBytes == 0 {
		o.LandingBytes = 64 << 20
	}
	if o.InFlight == 0 {
		o.InFlight = 128 << 20
	}
	if o.FenceTime == 0 {
		o.FenceTime = 500 * time.Millisecond
	}
	if o.OpenTime == 0 {
		o.OpenTime = 2 * time.Second
	}
	if o.PauseMin == 0 {
		o.PauseMin = time.Second
	}
	if o.PauseMax == 0 {
		o.PauseMax = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Validate says what is wrong with the options, defaults filled in.
func (o Options) Validate() error {
	o.setDefaults()
	switch {
	case o.Control == nil || o.Fabric == nil:
		return fmt.Errorf("%w: no control, or no fabric", ErrOptions)
	case o.Path.Retries > 6:
		return fmt.Errorf("%w: %d retries, want 1 to 6: 7 would mean for ever with some devices", ErrOptions, o.Path.Retries)
	case o.Path.Timeout > 31:
		return fmt.Errorf("%w: timeout %d, want 1 to 31", ErrOptions, o.Path.Timeout)
	case o.Path.ServiceLevel > 15:
		return fmt.Errorf("%w: service level %d, want 0 to 15", ErrOptions, o.Path.ServiceLevel)
	case o.PieceBytes < 4096 || o.PieceBytes%4096 != 0:
		return fmt.Errorf("%w: writes of %d bytes, want a multiple of 4096", ErrOptions, o.PieceBytes)
	case o.PostedBytes < int64(o.PieceBytes):
		return fmt.Errorf("%w: %d bytes posted, want at least one write of %d", ErrOptions, o.PostedBytes, o.PieceBytes)
	case o.LandingBytes < landingUnitBytes:
		return fmt.Errorf("%w: %d bytes to land in, want at least %d", ErrOptions, o.LandingBytes, landingUnitBytes)
	case o.InFlight < 1, o.FenceTime < time.Millisecond, o.OpenTime < time.Millisecond, o.PauseMin < time.Millisecond, o.PauseMax < o.PauseMin:
		return fmt.Errorf("%w: bytes in flight, and times, are at least 1 and 1ms, pauses in order", ErrOptions)
	}
	return nil
}

// landingUnitBytes is the piece in which landing memory is given out.
const landingUnitBytes = 256 << 10
