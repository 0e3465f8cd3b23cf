// Package iouring is a small binding of the kernel's io_uring: one ring, its
// submission and completion queues in a single mapping, registered files and
// buffers, and completions announced through an eventfd. It keeps no state of
// requests and knows no policy; package device does.
//
// The shared indexes pair with the kernel as follows. The submission tail is
// stored (release) after the entries it covers, the kernel loads it (acquire);
// the completion tail is loaded (acquire) before the entries, which the kernel
// wrote before storing it; the completion head is stored after the entries have
// been copied out, which is what lets the kernel use them again. Go's atomics
// are sequentially consistent, so stronger than all of these.
package iouring

import "strings"

// Operations of an SQE, as the kernel numbers them (frozen).
const (
	OpNop        = 0
	OpReadv      = 1
	OpWritev     = 2
	OpFsync      = 3
	OpReadFixed  = 4
	OpWriteFixed = 5
	OpFallocate  = 17
	OpRead       = 22
	OpWrite      = 23
)

// Values within an SQE (frozen).
const (
	FixedFile     = 1 << 0 // SQE.Flags: SQE.FD is an index into the registered files
	FsyncDatasync = 1 << 0 // SQE.OpFlags of OpFsync
)

// Flags of a ring that is set up (frozen).
const (
	SetupCQSize       = 1 << 3 // Params.CQEntries is wanted
	SetupClamp        = 1 << 4 // cut sizes to the kernel's maximum
	SetupSubmitAll    = 1 << 7 // one bad request does not end its batch; kernel 5.18
	SetupCoopTaskrun  = 1 << 8 // do not interrupt a running thread for completions; kernel 5.19
	SetupSingleIssuer = 1 << 12
)

var flagNames = []struct {
	flag uint32
	name string
}{{SetupCQSize, "cqsize"}, {SetupClamp, "clamp"}, {SetupSubmitAll, "submit_all"},
	{SetupCoopTaskrun, "coop_taskrun"}, {SetupSingleIssuer, "single_issuer"}}

// FlagNames spells set-up flags, "none" for none.
func FlagNames(flags uint32) string {
	var names []string
	for _, f := range flagNames {
		if flags&f.flag != 0 {
			names = append(names, f.name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "+")
}

// Features that the kernel reports (frozen).
const (
	featSingleMmap = 1 << 0
	featNoDrop     = 1 << 1
	featExtArg     = 1 << 8
)

// SQE is one request, 64 bytes as the kernel reads them (frozen).
type SQE struct {
	Opcode  uint8
	Flags   uint8
	_       uint16
	FD      int32
	Offset  uint64
	Addr    uint64 // of the buffer or of the pieces; OpFallocate: the length
	Len     uint32 // bytes or pieces; OpFallocate: the mode
	OpFlags uint32
	User    uint64 // comes back in the CQE
	Buffer  uint16 // index into the registered buffers
	_       uint16
	_       int32
	_       [2]uint64
}

// CQE is one completion, 16 bytes as the kernel writes them (frozen). Result
// is the operation's result, or a negative errno.
type CQE struct {
	User   uint64
	Result int32
	Flags  uint32
}

// Params is what io_uring_setup takes and fills in, 120 bytes (frozen).
type Params struct {
	SQEntries, CQEntries, Flags       uint32
	sqThreadCPU, sqThreadIdle         uint32
	Features, wqFD                    uint32
	_                                 [3]uint32
	sqHead, sqTail, sqMask, sqSize    uint32
	sqFlags, sqDropped, sqArray, _    uint32
	_                                 uint64
	cqHead, cqTail, cqMask, cqSize    uint32
	cqOverflow, cqCQEs, cqFlags, resv uint32
	_                                 uint64
}
