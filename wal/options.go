package wal

import (
	"fmt"
	"log/slog"
	"time"
)

// Position is the number of a record, from 1, without gaps. 0 is before the
// first record.
type Position uint64

// Options configure a log. Zero values mean the defaults named here. Recover
// uses StoreID and Logger only.
type Options struct {
	// StoreID marks every header and frame; files of another store are refused.
	StoreID [16]byte
	// FileBytes is the size of one file. Default 16 MiB, 64 KiB to 1 GiB, a
	// multiple of 4 KiB.
	FileBytes int64
	// FilesMax is the number of files, all of them created by Open: the log
	// takes FileBytes * FilesMax. If Open finds all of them in use, see Trimmed,
	// it takes up to two files more until the first Trim. Default 4, 2 to 1024.
	FilesMax int
	// Trimmed is a Trim ahead of Open: Open may reuse files of which no record
	// above it is needed, and so needs no new space. A caller whose index is
	// durable after Recover sets it to Recovered.Last. Default 0.
	Trimmed Position
	// PendingMaxBytes bounds the memory of records not yet written; one record
	// is always accepted. Default 8 MiB, at least 64 KiB.
	PendingMaxBytes int
	// WriteInterval is how long a record that nobody waits for stays unwritten
	// at most. Default 20 ms. It is written earlier when 256 KiB are pending.
	WriteInterval time.Duration
	// OnWritten, if set, is called after each written frame with the newest
	// written position, in order, on the log's own goroutine. It must not block
	// and must not call Write, Sync or Close.
	OnWritten func(Position)
	// OnPressure, if set, is called when a file is begun while more than half of
	// FilesMax hold untrimmed records: it is time to make the index durable and
	// to call Trim. It is called once, and again only after Trim has freed a
	// file. Same goroutine, same rules as OnWritten.
	OnPressure func()
	// Logger receives what no result tells. Default: discard.
	Logger *slog.Logger
}

const (
	fileBytesMin    = 64 << 10
	fileBytesMax    = 1 << 30
	filesMaxMax     = 1024
	pendingBytesMin = 64 << 10
	writeBytes      = 256 << 10 // pending bytes that are written at once
)

// withDefaults fills the zero values in and checks the rest.
func (o Options) withDefaults() (Options, error) {
	if o.FileBytes == 0 {
		o.FileBytes = 16 << 20
	}
	if o.FilesMax == 0 {
		o.FilesMax = 4
	}
	if o.PendingMaxBytes == 0 {
		o.PendingMaxBytes = 8 << 20
	}
	if o.WriteInterval == 0 {
		o.WriteInterval = 20 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.FileBytes < fileBytesMin || o.FileBytes > fileBytesMax || o.FileBytes%unitBytes != 0:
		return o, fmt.Errorf("%w: FileBytes %d is not a multiple of %d within %d and %d",
			ErrConfig, o.FileBytes, unitBytes, fileBytesMin, fileBytesMax)
	case o.FilesMax < 2 || o.FilesMax > filesMaxMax:
		return o, fmt.Errorf("%w: FilesMax %d is not within 2 and %d", ErrConfig, o.FilesMax, filesMaxMax)
	case o.PendingMaxBytes < pendingBytesMin:
		return o, fmt.Errorf("%w: PendingMaxBytes %d is below %d", ErrConfig, o.PendingMaxBytes, pendingBytesMin)
	case o.WriteInterval < 0:
		return o, fmt.Errorf("%w: WriteInterval %v is negative", ErrConfig, o.WriteInterval)
	}
	return o, nil
}

// RecordMaxBytes is the longest payload that a log with these options takes:
// 1 MiB, or what fits into one file.
func (o Options) RecordMaxBytes() int {
	fileBytes := o.FileBytes
	if fileBytes == 0 {
		fileBytes = 16 << 20
	}
	return min(recordBytesMax, int(fileBytes)-unitBytes-frameHeaderBytes-lengthBytes)
}
