package wal

import (
	"errors"
	"fmt"
)

// Errors of the log, matched with errors.Is.
var (
	// ErrFull: the record was not accepted because a bound is reached. With
	// ErrUntrimmed it stays so until Trim; else until the writer has caught up.
	ErrFull = errors.New("wal: log is full")
	// ErrUntrimmed matches ErrFull too: every file holds records that Trim has
	// not covered. Make the index durable and call Trim.
	ErrUntrimmed = fmt.Errorf("%w: every file holds records that are still needed", ErrFull)
	// ErrTooLarge: the payload exceeds Options.RecordMaxBytes.
	ErrTooLarge = errors.New("wal: record is too large")
	// ErrClosed: the log has been closed.
	ErrClosed = errors.New("wal: closed")
	// ErrFailed: a write, sync or change of the directory failed before. The log
	// takes no more records, and what was not synced by then may be lost. The
	// first cause stays reachable with errors.Is.
	ErrFailed = errors.New("wal: failed")
	// ErrCorrupt marks every CorruptError.
	ErrCorrupt = errors.New("wal: damaged")
	// ErrForeign: a file belongs to another store.
	ErrForeign = errors.New("wal: file of another store")
	// ErrVersion: a file was written in another format version.
	ErrVersion = errors.New("wal: unsupported format version")
	// ErrConfig: an option is out of range or contradicts another, or the
	// device's alignment does not suit the format.
	ErrConfig = errors.New("wal: bad configuration")
)

// CorruptError is damage at one place of the log. It matches ErrCorrupt.
type CorruptError struct {
	File   string // name in the directory
	Offset int64  // in bytes from the start of File
	Cause  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v: %s at offset %d: %v", ErrCorrupt, e.File, e.Offset, e.Cause)
}

// Is matches ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Cause }

// ForeignError is a file with the sound header of another store. It matches
// ErrForeign.
type ForeignError struct {
	File        string
	Found, Want [16]byte // store IDs
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%v: %s belongs to store %x, this is store %x", ErrForeign, e.File, e.Found, e.Want)
}

// Is matches ErrForeign.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// VersionError is a file with the sound header of another format version. It
// matches ErrVersion.
type VersionError struct {
	File        string
	Found, Want uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%v: %s has version %d, this program knows %d", ErrVersion, e.File, e.Found, e.Want)
}

// Is matches ErrVersion.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// Causes of a CorruptError beside those of the device.
var (
	errChecksum  = errors.New("frame fails its checksum")
	errLength    = errors.New("frame length is out of bounds")
	errRecords   = errors.New("records do not fill their frame")
	errMisplaced = errors.New("frame was written for another place")
	errMissing   = errors.New("records before this place are missing")
	errChanged   = errors.New("frame changed while it was recovered")
)
