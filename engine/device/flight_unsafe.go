package device

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device/iouring"
)

// kernelPiece is one piece of memory as the kernel reads it.
type kernelPiece = unix.Iovec

// request describes what is left of a flight to the kernel. fl.pieces stays
// untouched until the completion.
func (r *ring) request(fl *flight) iouring.SQE {
	op := fl.op
	e := iouring.SQE{User: fl.user}
	if r.nop {
		e.Opcode = iouring.OpNop
		return e
	}
	e.FD = int32(fl.file.fd)
	if fl.file.place > 0 && !r.byNumber {
		e.FD, e.Flags = int32(fl.file.place), iouring.FixedFile
	}
	switch op.Kind {
	case Sync:
		e.Opcode, e.OpFlags = iouring.OpFsync, iouring.FsyncDatasync
		return e
	case Punch:
		e.Opcode, e.Len = iouring.OpFallocate, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE
		e.Offset, e.Addr = uint64(op.Offset), uint64(op.LengthBytes)
		return e
	}
	e.Offset = uint64(op.Offset + int64(fl.n))
	fl.pieces, fl.asked = appendPieces(fl.pieces[:0], fl.at, r.bytesMax)
	if len(fl.pieces) > 1 {
		e.Opcode = either(op.Kind, iouring.OpReadv, iouring.OpWritev)
		e.Addr, e.Len = uint64(uintptr(unsafe.Pointer(&fl.pieces[0]))), uint32(len(fl.pieces))
		return e
	}
	address := uintptr(unsafe.Pointer(fl.pieces[0].Base))
	e.Addr, e.Len = uint64(address), uint32(fl.asked)
	if place, ok := r.memory.find(address, fl.asked); ok {
		e.Opcode, e.Buffer = either(op.Kind, iouring.OpReadFixed, iouring.OpWriteFixed), place
		r.fixed.Add(1)
		return e
	}
	e.Opcode = either(op.Kind, iouring.OpRead, iouring.OpWrite)
	return e
}

func either(kind Kind, read, write uint8) uint8 {
	if kind == Write {
		return write
	}
	return read
}
