package iouring

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	mapRings = 0          // offset of both queues in the ring's descriptor
	mapSQEs  = 0x10000000 // offset of the request entries

	enterGetEvents = 1 << 0 // wait for completions, and flush those that overflowed
	enterExtArg    = 1 << 3 // the last two arguments are a getEventsArg and its size

	sqCQOverflow = 1 << 1 // completions wait in the kernel for room
)

// Ring is one io_uring. Submission (Room, Push, Enter, TakeBack) belongs to one
// goroutine at a time, completion (Reap) to one goroutine at a time; the two
// may be different. Registration may run beside both.
type Ring struct {
	calls  Calls
	fd     int
	params Params

	rings, entries []byte // the two mappings

	sqHead, sqTail, sqFlags *atomic.Uint32
	sqMask, tail            uint32 // tail is the next entry to fill
	sqes                    []SQE

	cqHead, cqTail *atomic.Uint32
	cqMask         uint32
	cqes           []CQE

	event *os.File // the eventfd, read through the runtime's poller
}

// Config is what Open is asked for.
type Config struct {
	// Entries is the size of the submission queue; the completion queue is at
	// least twice as large unless CQEntries says otherwise.
	Entries, CQEntries uint32
	// Flags are tried from left to right: as long as the kernel does not know
	// them (EINVAL), the last of them is left out.
	Flags []uint32
	// Quiet leaves the eventfd out: whoever submits waits itself, in EnterWait.
	Quiet bool
	Calls Calls
}

// Error is a refused call.
type Error struct {
	Call  string
	Errno syscall.Errno
}

func (e *Error) Error() string { return e.Call + ": " + e.Errno.Error() }

// Unwrap gives the errno.
func (e *Error) Unwrap() error { return e.Errno }

// ErrOld says that the kernel has an io_uring that lacks what is needed here.
var ErrOld = errors.New("this kernel's io_uring is too old")

// Open sets a ring up. The error of a refused call is an *Error, that of an old
// kernel matches ErrOld.
func Open(c Config) (*Ring, error) {
	r := &Ring{calls: c.Calls, fd: -1}
	flags := c.Flags
	for {
		r.params = Params{CQEntries: c.CQEntries}
		if c.CQEntries != 0 {
			r.params.Flags = SetupCQSize
		}
		for _, f := range flags {
			r.params.Flags |= f
		}
		fd, errno := c.Calls.Setup(c.Entries, &r.params)
		if errno == 0 {
			r.fd = fd
			break
		}
		if errno != syscall.EINVAL || len(flags) == 0 {
			return nil, &Error{"io_uring_setup", errno}
		}
		flags = flags[:len(flags)-1]
	}
	if err := r.start(c.Quiet); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Ring) start(quiet bool) error {
	if r.params.Features&featSingleMmap == 0 || r.params.Features&featNoDrop == 0 {
		return fmt.Errorf("%w: features %#x", ErrOld, r.params.Features)
	}
	if err := r.checkOperations(); err != nil {
		return err
	}
	if err := r.mapQueues(); err != nil {
		return err
	}
	if quiet {
		return nil
	}
	return r.registerEvent()
}

// mapQueues maps the queues and finds the indexes in them.
func (r *Ring) mapQueues() (err error) {
	p := &r.params
	nBytes := max(int(p.sqArray)+int(p.SQEntries)*4, int(p.cqCQEs)+int(p.CQEntries)*int(unsafe.Sizeof(CQE{})))
	const access, how = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if r.rings, err = unix.Mmap(r.fd, mapRings, nBytes, access, how); err != nil {
		return fmt.Errorf("map the queues: %w", err)
	}
	nBytes = int(p.SQEntries) * int(unsafe.Sizeof(SQE{}))
	if r.entries, err = unix.Mmap(r.fd, mapSQEs, nBytes, access, how); err != nil {
		return fmt.Errorf("map the requests: %w", err)
	}
	shared := func(offset uint32) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&r.rings[offset])) }
	r.sqHead, r.sqTail, r.sqFlags = shared(p.sqHead), shared(p.sqTail), shared(p.sqFlags)
	r.cqHead, r.cqTail = shared(p.cqHead), shared(p.cqTail)
	r.sqMask, r.cqMask = shared(p.sqMask).Load(), shared(p.cqMask).Load()
	r.sqes = unsafe.Slice((*SQE)(unsafe.Pointer(&r.entries[0])), p.SQEntries)
	r.cqes = unsafe.Slice((*CQE)(unsafe.Pointer(&r.rings[p.cqCQEs])), p.CQEntries)
	// The kernel takes requests in the order of this array: the natural one.
	order := unsafe.Slice((*uint32)(unsafe.Pointer(&r.rings[p.sqArray])), p.SQEntries)
	for i := range order {
		order[i] = uint32(i)
	}
	r.tail = r.sqTail.Load()
	return nil
}

// Flags are the set-up flags that the kernel took.
func (r *Ring) Flags() uint32 { return r.params.Flags &^ SetupCQSize }

// Entries are the sizes of the submission and completion queues.
func (r *Ring) Entries() (submission, completion int) {
	return int(r.params.SQEntries), int(r.params.CQEntries)
}

// Room is how many requests can be pushed.
func (r *Ring) Room() int { return len(r.sqes) - int(r.tail-r.sqHead.Load()) }

// Push adds a request for the next Enter; there must be Room. The memory that
// it names must stay reachable and in place until its completion.
func (r *Ring) Push(e *SQE) {
	r.sqes[r.tail&r.sqMask] = *e
	r.tail++
}

// TakeBack removes the last n requests pushed and not yet taken by the kernel.
// Without a polling thread the kernel looks at the queue only within Enter.
func (r *Ring) TakeBack(n int) {
	r.tail -= uint32(n)
	r.sqTail.Store(r.tail)
}

// Enter hands the pushed requests to the kernel, up to n, and returns how many
// it took. It does not wait.
func (r *Ring) Enter(n int) (int, syscall.Errno) {
	r.sqTail.Store(r.tail)
	return r.calls.Enter(r.fd, uint32(n), 0, 0)
}

// EnterWait is Enter that then waits for a completion, or until the time limit has
// passed (ETIME), without bound for a limit below 0. Requests are taken
// whatever becomes of the wait. It needs a kernel with CanWait.
func (r *Ring) EnterWait(n int, limit time.Duration) (int, syscall.Errno) {
	r.sqTail.Store(r.tail)
	return r.calls.EnterWait(r.fd, uint32(n), limit)
}

// CanWait says whether the kernel knows waiting with a limit (5.11).
func (r *Ring) CanWait() bool { return r.params.Features&featExtArg != 0 }

// Reap copies completions to dst and returns how many; fewer than len(dst) means
// that there are no more. Completions that overflowed the queue are fetched.
func (r *Ring) Reap(dst []CQE) int {
	n := r.copyOut(dst)
	if n < len(dst) && r.sqFlags.Load()&sqCQOverflow != 0 {
		// Without waiting, the call only moves them over; a failure leaves them
		// where they are, and the next completion brings us here again.
		_, _ = r.calls.Enter(r.fd, 0, 0, enterGetEvents)
		n += r.copyOut(dst[n:])
	}
	return n
}

func (r *Ring) copyOut(dst []CQE) int {
	head, tail := r.cqHead.Load(), r.cqTail.Load()
	n := 0
	for ; head != tail && n < len(dst); n++ {
		dst[n] = r.cqes[head&r.cqMask]
		head++
	}
	r.cqHead.Store(head)
	return n
}

// Close unmaps and closes the ring. What was registered should have been given
// back before: the kernel itself would do that at some later time.
func (r *Ring) Close() {
	if r.event != nil {
		_ = r.event.Close() // nothing is written through it that could be lost
	}
	for _, mapping := range [][]byte{r.rings, r.entries} {
		if mapping != nil {
			_ = unix.Munmap(mapping) // fails only for what is not mapped
		}
	}
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
	}
}
