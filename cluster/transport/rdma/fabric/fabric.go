// Package fabric is what the rdma transport wants of an RDMA device: memory that it knows,
// and reliable connected queue pairs that write into memory of the other side. Package
// verbs is the real one, package sim one in memory, for tests.
//
// Rules of every fabric.
//   - Writes of one queue pair take effect in the order in which they were posted. When a
//     receive has completed, all bytes written before its write with immediate are visible.
//     A completion of the sender proves nothing of the kind: the other device has the bytes
//     then, and may not have brought them to memory yet.
//   - A write that may not be made (a key that nobody has, an address outside the region, no
//     right) changes nothing there; both queue pairs are of no use afterwards.
//   - A write with immediate takes one posted receive. Without one the sender fails: who
//     asks for blocks posts receives first.
//   - When Destroy has returned nil, nothing that the other side has sent, or will send, over
//     that queue pair changes memory, and the device reads no memory of its posted writes any
//     more. It is the only fence of a queue pair: an error of a completion is none. When
//     Deregister has returned nil, nobody writes to that region.
//   - A peer that is frozen, or gone, need not be noticed: deadlines are the caller's.
package fabric

import (
	"errors"
	"fmt"
	"net/netip"
)

// Errors of fabrics. Each says in its text what to do.
var (
	ErrNone        = errors.New("there is no RDMA here")                    // no library, no driver, no device, or a build without it
	ErrMemoryLock  = errors.New("the limit on locked memory is too low")    // RLIMIT_MEMLOCK
	ErrUnsupported = errors.New("the RDMA device does not support it")      // such as memory of a GPU
	ErrClosed      = errors.New("the queue pair, or its device, is closed") //
	ErrFull        = errors.New("the queue of the queue pair is full")      // the caller has posted more than it asked room for
)

// Rights say what may be done with a region. The own device may always read it, to send.
type Rights uint8

// RemoteWrite: whoever has the region's remote key may write there, through a queue pair of
// the same device.
const RemoteWrite Rights = 1 << 0

// GIDType is how a port speaks under one of its addresses.
type GIDType uint8

// GID types.
const (
	InfiniBand GIDType = iota
	RoCEv1             // Ethernet frames; not routable
	RoCEv2             // UDP
)

func (t GIDType) String() string { return [...]string{"InfiniBand", "RoCE v1", "RoCE v2"}[t] }

// GID is one address of a port.
type GID struct {
	Index     int
	Type      GIDType
	Address   netip.Addr // 16 bytes; an IPv4 address of RoCE v2 stands as an IPv4-mapped one
	Interface string     // network interface it belongs to, a VLAN's for instance; empty on InfiniBand
	// Networks of that interface, masked, link-local ones left out; of InfiniBand the
	// subnet. Who has an address in one of them is near. All are of 128 bits, as Address is:
	// 10.0.0.0/8 stands as ::ffff:10.0.0.0/104, and Contains works on addresses of peers.
	Networks []netip.Prefix
}

// Port is a port of a device, as it is now.
type Port struct {
	Device   string // such as "mlx5_0"
	Number   uint8  // from 1
	Ethernet bool   // RoCE; false: InfiniBand
	Active   bool
	State    string  // in words, such as "active" or "down"
	LID      uint16  // InfiniBand's
	MTUBytes int     // active: 256 to 4096
	RateGbps float64 // 0: unknown
	Node     int     // NUMA node; -1: unknown
	GIDs     []GID   // those in use
	Limits   Limits
}

// Name is "device:port", as options and reports have it.
func (p *Port) Name() string { return fmt.Sprintf("%s:%d", p.Device, p.Number) }

// Limits of a device.
type Limits struct {
	MessageBytesMax int   // of one write
	SendsMax        int   // posted on one queue pair
	ReceivesMax     int   // posted on one queue pair
	RegionBytesMax  int64 // of one region
	InlineBytesMax  int   // at least 64 with every device that Open accepts
	GPUMemory       bool  // RegisterGPU may work
}

// Fabric finds the devices of a machine. Its methods may be called from many goroutines.
type Fabric interface {
	// Ports lists all ports of all devices in order, usable or not. ErrNone if there is
	// nothing that could have one.
	Ports() ([]Port, error)
	// Open opens a port, with the address to use; port and gid come from Ports.
	Open(port Port, gid GID) (Device, error)
}

// Device is one open port. All methods may be called from many goroutines.
type Device interface {
	Port() Port
	GID() GID
	// Register makes memory known to the device, which pins it: mem is outside the Go heap
	// and stays mapped until Deregister has returned. ErrMemoryLock if the system refuses to
	// pin so much.
	Register(mem []byte, rights Rights) (Region, error)
	// RegisterGPU does that with memory of a GPU, exported as a dma-buf: length bytes at
	// offset in it, which peers address from address on. ErrUnsupported where driver, kernel
	// or device cannot.
	RegisterGPU(dmaBuf int, offset, length, address uint64, rights Rights) (Region, error)
	NewQueuePair(o QueueOptions) (QueuePair, error)
	// Close is called when no region and no queue pair is left.
	Close() error
}

// Region is registered memory.
type Region interface {
	Address() uint64 // of its first byte, as local writes and peers name it
	Bytes() int64
	LocalKey() uint32
	RemoteKey() uint32
	// Deregister ends it. After an error it is still registered.
	Deregister() error
}

// QueueOptions size a queue pair.
type QueueOptions struct {
	Sends    int // writes that are posted at once, at most
	Receives int // receives that are posted at once, at most
	// RemoteWrite lets the other side write through it.
	RemoteWrite bool
}

// Endpoint is what the other side must know of a queue pair.
type Endpoint struct {
	Number   uint32     // of the queue pair, 24 bits
	Packet   uint32     // number of the first packet it sends, 24 bits, random
	GID      netip.Addr // 16 bytes
	LID      uint16
	MTUBytes int
	Ethernet bool
}

// Path says how packets travel.
type Path struct {
	Timeout      uint8 // of an acknowledgement: 4.096 us * 2^Timeout; 14 is 67 ms
	Retries      uint8 // 1 to 6; 7 means for ever on some devices
	TrafficClass uint8 // of RoCE v2 the IP header's
	ServiceLevel uint8
	HopLimit     uint8
}

// Write is one write into memory of the other side.
type Write struct {
	Inline    []byte // if not nil, what to write, copied when it is posted: at most Limits.InlineBytesMax
	Source    uint64 // else the address of it, in a region that is registered here
	SourceKey uint32 // that region's local key
	Bytes     uint32
	Target    uint64 // at the other side
	TargetKey uint32 // its region's remote key
	// Immediate goes into a receive of the other side, if Notify is set. A write of no
	// bytes then writes nothing, and needs no target.
	Immediate uint32
	Notify    bool
}

// Result says how a posted list, or a receive, has ended.
type Result uint8

// Results.
const (
	OK              Result = iota
	Flushed                // the queue pair was of no use any more
	NoAnswer               // the other side did not acknowledge, after all retries
	NoReceive              // the other side had no receive posted
	RemoteDenied           // no such key, out of bounds, or no right
	RemoteMalformed        // the other queue pair does not take such requests
	LocalFault             // this side's memory, length or link
	OtherFault             // see Code
)

func (r Result) String() string {
	return [...]string{"ok", "flushed", "no answer", "no receive posted there", "access denied there", "request refused there", "fault of this side", "fault"}[r]
}

// Completion tells the end of a posted list, or of a receive.
type Completion struct {
	ID        uint64 // of the list; after a failure that of the list that failed
	Result    Result
	Code      int    // the device's number for it, for the log
	Immediate uint32 // of a receive that is OK
}

// QueuePair is one end of a connection. Post and Poll calls may come from many goroutines,
// Destroy once.
type QueuePair interface {
	Local() Endpoint
	// Connect takes the other end in: from then on both directions work. Receives may be
	// posted before.
	Connect(remote Endpoint, path Path) error
	// PostReceives makes room for n more writes with immediate.
	PostReceives(n int) error
	// PostWrites posts all of list, at most QueueOptions.Sends that have not completed, and
	// does not keep the slice. With ErrFull nothing is posted; after any other error some of
	// it may be, of which no completion need come: destroy the queue pair then. There is one
	// completion for the list, which comes after all before it have, with id. If an earlier list failed, those behind it
	// may not be told one by one: count what is posted.
	PostWrites(id uint64, list []Write) error
	// Receives and Sends give completions.
	Receives() Queue
	Sends() Queue
	// Destroy is the fence. Completions that were not taken are lost; a Wait that is under
	// way returns ErrClosed before Destroy does. After an error nothing is known.
	Destroy() error
}

// Queue gives the completions of one kind.
type Queue interface {
	// Poll takes what is there, at most len(c), without waiting.
	Poll(c []Completion) int
	// Wait takes at least one. It returns ErrClosed when the queue pair is destroyed. One
	// goroutine at a time.
	Wait(c []Completion) (int, error)
}
