// Package arena is the memory through which blocks move between drives, GPUs,
// peers and clients. There are three kinds of it:
//
//   - Arena: private memory of the node, cut into frames of a block's size. It is
//     never handed to a client.
//   - Shared: memory made here for one user of one namespace, whose descriptor
//     the client gets. It is dropped in the end, never used for another.
//   - Region: memory of a client, known by the descriptor that it sent. The
//     client may change, empty or shrink it at any time.
//
// All of it is page-aligned, mapped, outside the Go heap, and has a size that is
// fixed when it is made. What moves data registers it through a Registrar.
package arena

import "errors"

// Errors to compare with errors.Is.
var (
	// ErrFull: the arena has no room for a frame of this size now.
	ErrFull = errors.New("arena: no room for another frame")
	// ErrSize: no frame, or no memory, of this size can ever be.
	ErrSize = errors.New("arena: this size cannot be")
	// ErrClosed: the memory was closed.
	ErrClosed = errors.New("arena: closed")
	// ErrBounds: offset and length do not lie within a region.
	ErrBounds = errors.New("arena: outside the region")
	// ErrNotMemory: a descriptor is not of shared memory that can be written.
	ErrNotMemory = errors.New("arena: not writable shared memory")
)
