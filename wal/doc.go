// Package wal is the store's redo log: records appended in order, committed in
// groups, in preallocated and recycled files. See docs/format/wal.md for the
// bytes and docs/architecture.md for its place.
package wal
