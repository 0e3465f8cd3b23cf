// Package wal is the store's redo log: records appended in order, committed in
// groups, in preallocated and recycled files. See docs/format/wal.md for the
// bytes and docs/architecture.md for its place.
//
// A start is three steps: Recover replays what survived and changes nothing,
// the caller makes its own state durable, Open begins a new file behind it.
package wal
