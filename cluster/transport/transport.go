// Package transport moves messages and blocks between two nodes. What is above it does
// not know which transport runs: tcp always, others where the machine has them.
//
// A node dials another and has a Link; the other's Handler serves what comes over it.
// Three shapes of call are enough: Call (bytes for bytes), Fetch (blocks come back) and
// Push (blocks go along).
//
// Rules of every transport. A call ends with its context at the latest. Every block of a
// Fetch is answered exactly once. Nothing is written to a block's destination after its
// Released, and nothing but the block's own bytes ever. No order between calls is promised.
// Bytes in flight are bounded by the transport's options; at the bound a call waits while
// its context lasts.
package transport

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
)

// Kind says what a call is for; package peer has them.
type Kind uint8

// KindUrgent and above are the kinds of short Calls (to 64 KiB) that others wait for, and that
// therefore wait for no other call: they do not count at the bounds of a link, which is asked
// a few of them at once, at most 16.
const KindUrgent Kind = 0xf8

// Hello is what two nodes tell each other first.
type Hello struct {
	PoolID       string
	Node         member.ID
	Name         string
	ProtocolLow  uint8 // what this side speaks; the higher of both lows to the lower of both highs is common
	ProtocolHigh uint8
}

// Status of one block of a Fetch.
type Status uint8

// Statuses.
const (
	Unanswered Status = iota
	Done              // Dst holds what the peer sent, whole; Checksum is the sender's word for it, to be verified
	Miss              // the peer does not have it, or has it in another size than Dst
	Refused           // the peer is too busy, or too late, or answered the whole call with an error
	Late              // the context ended first; Dst is the transport's until Released
	Lost              // the link failed; nothing touches Dst any more
	Faulted           // Dst is not memory (any more): whoever gave it has taken it away; the rest of the Fetch goes on
)

// Block is one block of a Fetch.
type Block struct {
	Dst      [][]byte // pieces, in order; the transport's from the call until the answer or Released
	Checksum uint64   // as the peer's store has it, with Done
	Status   Status
}

// Fetching are the options of one Fetch.
type Fetching struct {
	Blocks []Block
	// Arrived, if not nil, is called for every block as it is answered, Late and Lost
	// ones excepted, its Status set: what comes first can be verified while the rest is
	// on its way. It runs on the goroutine that called Fetch, one block at a time.
	Arrived func(i int)
	// Released is called once for every block that was answered Late, its Status set,
	// after the last access to its Dst, from any goroutine, before Fetch returns or after.
	// It must be quick. May be nil.
	Released func(i int)
}

// Link is a connection to one peer. All methods may be called from many goroutines.
type Link interface {
	// Peer is who answered.
	Peer() Hello
	// Version is the protocol that both speak.
	Version() uint8
	// Call sends body and returns the answer, which is the caller's. An error of the
	// peer's handler is a *RemoteError; any other is the link's, or the context's.
	Call(ctx context.Context, kind Kind, body []byte) (answer []byte, err error)
	// Fetch asks for blocks: the request says which, f.Blocks where they go, in the
	// same order. The answer is what the handler said beside them. It returns when
	// every block has a status.
	Fetch(ctx context.Context, kind Kind, body []byte, f *Fetching) (answer []byte, err error)
	// Push sends blocks, each in pieces, and returns the answer. The memory of blocks
	// is the transport's until Push returns, which it does soon after ctx ends.
	Push(ctx context.Context, kind Kind, body []byte, blocks [][][]byte) (answer []byte, err error)
	// Gone is closed when the link is of no use any more.
	Gone() <-chan struct{}
	// Close ends the link; calls under way fail. It waits until no memory of theirs is in use.
	Close() error
}

// Reply takes the blocks of a Fetch on the side that has them. Its methods may be
// called from many goroutines, for every block once, in any order.
type Reply interface {
	// Block sends block i: pieces must stay as they are until done is called, exactly once.
	Block(i int, pieces [][]byte, checksum uint64, done func())
	// None says that there is no block i to send: Miss or Refused.
	None(i int, s Status)
}

// Incoming are the blocks of a Push on the side that receives them.
type Incoming interface {
	// Blocks is how many there are.
	Blocks() int
	// BlockBytes is the size of block i, as the sender says: bound it before trusting it.
	BlockBytes(i int) int
	// Receive reads the next block into dst, whose pieces have BlockBytes together; nil
	// skips it. Blocks come in order, each once. An error that matches syscall.EFAULT is
	// of dst's memory, or of the sender's, and of this block only; after any other the
	// rest does not come either.
	Receive(dst [][]byte) error
}

// Handler serves the calls of peers. Its methods run in a goroutine each; ctx ends with
// the link, or when the caller has given the call up. An error becomes the caller's
// *RemoteError: one that is, or wraps, a *RemoteError keeps its code, any other has
// CodeInternal, and so has a panic.
type Handler interface {
	// Hello judges a peer that connects: an error turns it away, and is told to it.
	Hello(h Hello) error
	Call(ctx context.Context, from Hello, kind Kind, body []byte) (answer []byte, err error)
	// Fetch answers every one of n blocks through r before it returns; those that it
	// leaves out are missed, and what it says of one later is not heard.
	Fetch(ctx context.Context, from Hello, kind Kind, body []byte, n int, r Reply) (answer []byte, err error)
	Push(ctx context.Context, from Hello, kind Kind, body []byte, in Incoming) (answer []byte, err error)
}

// Transport reaches and is reached by other nodes.
type Transport interface {
	// Name is what people call it, such as "tcp".
	Name() string
	// Dial makes a link to the node that answers at address. The pool's other side is
	// in the link's Peer: the caller checks that it is who was meant.
	Dial(ctx context.Context, address string, self Hello) (Link, error)
	// Serve answers peers with h until Close; then it returns nil.
	Serve(self Hello, h Handler) error
	// Address is where peers reach this node: the listener's.
	Address() net.Addr
	// Close ends Serve and all links, dialled ones too. When it returns no handler runs.
	Close() error
}

// RemoteError is the word of a peer's handler that it could not serve a call.
type RemoteError struct {
	Code Code
	Text string
}

func (e *RemoteError) Error() string { return e.Text }

// Code is a kind of RemoteError.
type Code uint8

// Codes.
const (
	CodeInternal  Code = iota // whatever has no code of its own
	CodeMalformed             // the message breaks the protocol
	CodeUnknown               // no such call, or no such namespace here
	CodeJoining               // the peer has not merged what was erased yet
	CodeBehind                // the peer does not know of erasures that the caller knows of
	CodeFloor                 // the namespace was dropped since: the peer is further than the caller
	CodeBusy                  // a bound is reached
	CodeDenied                // another pool, a bad certificate, not a member
	CodeClosing               // the peer stops
)

// Errors of links.
var (
	// ErrLost: the link failed; calls under way were not served as far as anybody knows.
	ErrLost = errors.New("the link to the peer is lost")
	// ErrForeign: who answers belongs to another pool, or is not who was meant.
	ErrForeign = errors.New("the peer belongs to another pool")
	// ErrVersion: the two speak no common version of the protocol.
	ErrVersion = errors.New("no common version of the peers' protocol")
)

// Use says what becomes of memory.
type Use uint8

// Uses.
const (
	Source      Use = 1 << iota // blocks of Reply.Block are sent out of it
	Destination                 // blocks of a Fetch come into it
)

// Registrar is a Transport that is quicker with memory that it knows.
type Registrar interface {
	// RegisterMemory makes mem known, which is outside the Go heap and stays mapped until
	// release has returned; that is called when no call has any of it. An error says why
	// the memory cannot be known; it may be used all the same. Larger pieces than
	// RegisterBytesMax are not taken.
	RegisterMemory(mem []byte, use Use) (release func(), err error)
}

// RegisterBytesMax is the largest piece of memory that a Registrar takes at once.
const RegisterBytesMax = 1 << 30

// Way is how the blocks of a Link travel now, and what has travelled.
type Way struct {
	Name       string `json:"name"`          // tcp or rdma
	Why        string `json:"why,omitempty"` // why not another, in words, if that was wanted
	Ports      int    `json:"ports"`         // RDMA ports of this side in use
	Blocks     uint64 `json:"blocks"`        // that came by RDMA
	Bytes      uint64 `json:"bytes"`         // of those
	SentBlocks uint64 `json:"sent_blocks"`   // that went by RDMA, over links of the peer's
	SentBytes  uint64 `json:"sent_bytes"`    // of those
	Pieces     uint64 `json:"pieces"`        // writes posted for those
	Fallbacks  uint64 `json:"fallbacks"`     // fetches that went by TCP, though RDMA was wanted
	Fences     uint64 `json:"fences"`        // fetches that were given up and taken back by the peer's word
	Destroyed  uint64 `json:"destroyed"`     // queue pairs that were destroyed because there was no word, or a fault
	Connects   uint64 `json:"connects"`      // times that RDMA came up
	Failures   uint64 `json:"failures"`      // times that it did not, or ended
}

// Ways is a Transport with more than one way of sending blocks.
type Ways interface {
	// Way is that to one peer.
	Way(peer member.ID) Way
	// PlainFor has all fetches of this side that begin within d from now go the plain way
	// (TCP), whatever else there is; 0 ends that. They are no Fallbacks, since nothing else
	// was wanted, and Way says so in Why. What the other way has made stays as it is.
	PlainFor(d time.Duration)
}
