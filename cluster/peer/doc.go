// Package peer is what two nodes of a pool say to each other about blocks: the bodies of
// the calls that package transport carries, as docs/format/peer.md lays them out byte by
// byte. It encodes and decodes; it keeps no state and does no I/O.
//
// Encoders append to a slice. Decoders check every length against what is there and never
// allocate more than a body holds; what they return refers to the body's memory where it
// says so. Their errors match ErrMalformed.
package peer

import (
	"errors"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// ErrMalformed says that a body breaks the protocol.
var ErrMalformed = errors.New("malformed message of a peer")

// Versions of the protocol that this package speaks; see version.go.
const (
	VersionLow  = versionLow
	VersionHigh = versionHigh
)

// Kinds of calls. Match, Get, Put and Delete name a namespace, its incarnation and what
// the caller knows of erasures (Scope).
const (
	KindMatch    transport.Kind = 0x01 // Call: which of these IDs are here
	KindGet      transport.Kind = 0x02 // Fetch: the blocks of these IDs
	KindOffer    transport.Kind = 0x03 // Call: which of these blocks are wanted
	KindPut      transport.Kind = 0x04 // Push: blocks of one run
	KindRelease  transport.Kind = 0x05 // Call: a lease ends
	KindTouch    transport.Kind = 0x06 // Call: blocks that were used
	KindDelete   transport.Kind = 0x07 // Call: erasures to take in
	KindMerge    transport.Kind = 0x08 // Call: floors and erasures, both ways
	KindDescribe transport.Kind = 0x09 // Call: the descriptor of a namespace, to open it
	KindProbe    transport.Kind = 0x0a // Call: is this leg of the network sound
)
