// Package wire is what a client and its daemon say to each other over a Unix
// socket: frames and their bodies, as docs/format/wire.md lays them out byte by
// byte. It encodes and decodes; it keeps no state and does no I/O.
//
// Encoders append to a slice. Decoders check every length against what is there
// and never allocate more than a body holds; what they return refers to the body's
// memory where it says so. Their errors match ErrMalformed.
package wire

import "errors"

// Magic begins a Hello.
const Magic = "SPILLWAY"

// Version is the highest version of the protocol that this package speaks, and so
// far the only one.
const Version = 1

// ErrMalformed says that a frame or body breaks the protocol.
var ErrMalformed = errors.New("malformed message")

// Type tells messages apart.
type Type uint8

// Requests. The answer to one has the bit Answer added, or is TypeError.
const (
	TypeHello          Type = 0x01
	TypeOpenNamespace  Type = 0x02
	TypeRegisterRegion Type = 0x03
	TypeCreateRegion   Type = 0x04
	TypeDropRegion     Type = 0x05
	TypeMatch          Type = 0x06
	TypeGet            Type = 0x07
	TypePut            Type = 0x08
	TypeTouch          Type = 0x09
	TypeRelease        Type = 0x0a
	TypeDelete         Type = 0x0b
	TypeDropNamespace  Type = 0x0c
	TypeCancel         Type = 0x0d
	TypeDrain          Type = 0x0e
	TypeStats          Type = 0x0f
	TypeEvents         Type = 0x10
	TypeLocate         Type = 0x11
	TypePrefetch       Type = 0x12
	TypePing           Type = 0x13
)

// What a daemon sends unasked, and the answer to what went wrong.
const (
	TypeReleased Type = 0x40
	TypeEvent    Type = 0x41
	TypeError    Type = 0x7f
	Answer       Type = 0x80
)

// Status is the answer for one key.
type Status uint8

// Statuses; 0 is none.
const (
	Hit     Status = 1
	Miss    Status = 2
	Late    Status = 3
	Busy    Status = 4
	Stored  Status = 5
	Present Status = 6
	Dropped Status = 7
)

var statusNames = [...]string{"NONE", "HIT", "MISS", "LATE", "BUSY", "STORED", "PRESENT", "DROPPED"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "INVALID"
}

// Flags of a Get, a Put and a RegisterRegion.
const (
	GetBounce     = 1 << 0 // copy only while the answer is wanted: LATE needs no Released
	GetNoTouch    = 1 << 1 // the blocks keep their age
	GetPrefix     = 1 << 2 // only the longest prefix that is here
	GetWorth      = 1 << 3 // its deadline is when computing would be done, as the daemon knows
	PutDurable    = 1 << 0 // answered when data and log are on stable media
	PutDropIfBusy = 1 << 1 // DROPPED where a slot would have to be waited for
	PutPartial    = 1 << 2 // the last block is not full: the end of a prompt within a block
	PutSpan       = 1 << 3 // the blocks are one stretch of a long sequence
	RegionSource  = 1 << 0 // the client only puts from the region
)

// ComputeKnown, as the time to compute a block in a Match, stands for what the daemon
// knows of the namespace's model.
const ComputeKnown = 1<<32 - 1

// Reason says why a block of a Put is DROPPED.
type Reason uint8

// Reasons; 0 is none that the daemon chose: no room, a sick drive, bad memory.
const (
	ReasonPartial    Reason = 1 // the last block of a prompt, not full
	ReasonFirstSight Reason = 2 // it is stored when it is put again
	ReasonBudget     Reason = 3 // the drive has been written as much as it may
	ReasonQueue      Reason = 4 // too much waits for the drive
)

var reasonNames = [...]string{"other", "partial", "first sight", "write budget", "queue"}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// Code says what kind of error answers a request.
type Code uint16

// Codes of TypeError.
const (
	CodeProtocol    Code = 1
	CodeUnsupported Code = 2
	CodeArgument    Code = 3
	CodeUnknown     Code = 4
	CodeDenied      Code = 5
	CodeLimit       Code = 6
	CodeClosing     Code = 7
	CodeInternal    Code = 8
)

var codeNames = [...]string{"", "protocol", "unsupported", "bad argument", "unknown", "denied", "limit", "closing", "internal"}

func (c Code) String() string {
	if c > 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "error"
}

// Kinds of an Event.
const (
	EventStored  uint8 = 1
	EventRemoved uint8 = 2
	EventCleared uint8 = 3
	EventLost    uint8 = 4
)
