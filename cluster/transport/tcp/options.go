package tcp

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ErrOptions says that options are out of range.
var ErrOptions = errors.New("bad options of the tcp transport")

// Options configure a Transport. Zero values mean the defaults named here.
type Options struct {
	// Listen is the host:port that peers are answered at; host may be empty for all
	// addresses, port 0 for any. IPv6 hosts stand in brackets.
	Listen string
	// TLS is nil for plain text. With it, plain text is refused.
	TLS *TLS

	Connections    int           // of a link that is dialled, for blocks (2)
	InFlightBytes  int64         // of blocks and messages of one link, either side; the smaller of both holds (128 MiB)
	Handlers       int           // calls of one peer that are served at once (64)
	ConnectionsMax int           // that peers have made (1024)
	Silence        time.Duration // a peer that sends no sign of life for so long is gone (10s)
	StallTime      time.Duration // so is one that takes nothing of what is sent to it (10s)
	HelloTime      time.Duration // how long a peer may take to say who it is (5s)
	RequestTime    time.Duration // how long a request of several chunks may take to come whole (30s)
	Logger         *slog.Logger  // nil: none
}

// Bounds of options.
const (
	// LinkConnectionsMax is the most connections for blocks that a link has.
	LinkConnectionsMax = 4

	silenceMin = 50 * time.Millisecond
	silenceMax = 10 * time.Minute
)

func (o *Options) setDefaults() {
	if o.Connections == 0 {
		o.Connections = 2
	}
	if o.InFlightBytes == 0 {
		o.InFlightBytes = 128 << 20
	}
	if o.Handlers == 0 {
		o.Handlers = 64
	}
	if o.ConnectionsMax == 0 {
		o.ConnectionsMax = 1024
	}
	if o.Silence == 0 {
		o.Silence = 10 * time.Second
	}
	if o.StallTime == 0 {
		o.StallTime = 10 * time.Second
	}
	if o.HelloTime == 0 {
		o.HelloTime = 5 * time.Second
	}
	if o.RequestTime == 0 {
		o.RequestTime = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Validate says what is wrong with the options, defaults filled in.
func (o Options) Validate() error {
	o.setDefaults()
	switch {
	case o.Connections < 1 || o.Connections > LinkConnectionsMax:
		return fmt.Errorf("%w: %d connections of a link, want 1 to %d", ErrOptions, o.Connections, LinkConnectionsMax)
	case o.InFlightBytes < chunkBytes:
		return fmt.Errorf("%w: %d bytes in flight, want at least %d", ErrOptions, o.InFlightBytes, chunkBytes)
	case o.Handlers < 1 || o.Handlers > 1<<16:
		return fmt.Errorf("%w: %d calls at once, want 1 to %d", ErrOptions, o.Handlers, 1<<16)
	case o.ConnectionsMax < 1:
		return fmt.Errorf("%w: %d connections of peers, want at least 1", ErrOptions, o.ConnectionsMax)
	case o.Silence < silenceMin || o.Silence > silenceMax:
		return fmt.Errorf("%w: silence of %v, want %v to %v", ErrOptions, o.Silence, silenceMin, silenceMax)
	case o.StallTime < silenceMin || o.HelloTime < silenceMin || o.RequestTime < silenceMin:
		return fmt.Errorf("%w: stall time %v, hello time %v, request time %v, want at least %v", ErrOptions, o.StallTime, o.HelloTime, o.RequestTime, silenceMin)
	case o.TLS != nil:
		return o.TLS.validate()
	}
	return nil
}
