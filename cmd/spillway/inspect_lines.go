package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spillway-kv/spillway/engine"
)

// The JSON lines of inspect. Each names its file; numbers and sizes are as on
// disk.
type (
	// inspectFile begins a file.
	inspectFile struct {
		Type  string `json:"type"`  // file
		File  string `json:"file"`  // its path
		Kind  string `json:"kind"`  // store file, segment, log file, deletions, ballast, lock file, index
		Bytes int64  `json:"bytes"` // its length; 0 for a folder
	}
	// inspectStore is a store file's own part.
	inspectStore struct {
		Type          string `json:"type"`           // store
		File          string `json:"file"`           // its path
		Version       uint32 `json:"version"`        // of the format
		StoreID       string `json:"store_id"`       // 32 hex digits
		CapacityBytes int64  `json:"capacity_bytes"` // bound of everything on disk
		SegmentBytes  int64  `json:"segment_bytes"`  // target size of a segment
		LogFileBytes  int64  `json:"log_file_bytes"` // size of one log file
		Namespaces    int    `json:"namespaces"`     // how many follow
	}
	// inspectNamespace is a namespace of a store file.
	inspectNamespace struct {
		Type string `json:"type"` // namespace
		File string `json:"file"` // its path
		engine.NamespaceFacts
	}
	// inspectSegment is a segment's header.
	inspectSegment struct {
		Type string `json:"type"` // segment
		File string `json:"file"` // its path
		engine.SegmentFacts
		Mirror string `json:"mirror"` // of the header, in an extended attribute: present, or absent
	}
	// inspectPage is a page of a segment's directory.
	inspectPage struct {
		Type        string `json:"type"`        // directory page
		File        string `json:"file"`        // its path
		Offset      int64  `json:"offset"`      // in bytes from the start of the file
		Page        uint32 `json:"page"`        // from 0
		Incarnation uint32 `json:"incarnation"` // of the namespace
		Position    uint64 `json:"position"`    // of the log when the directory was begun
		Entries     int    `json:"entries"`     // blocks that the page names; they follow
	}
	// inspectPageEntry is a block that a directory names.
	inspectPageEntry struct {
		Type string `json:"type"` // directory entry
		File string `json:"file"` // its path
		engine.DirectoryEntry
		Key string `json:"key"` // as text or hex:...; empty where the page had no room for it
	}
	// inspectLogHeader is the header of a log file.
	inspectLogHeader struct {
		Type    string `json:"type"`           // log header
		File    string `json:"file"`           // its path
		Version uint32 `json:"version"`        // of the format
		StoreID string `json:"store_id"`       // 32 hex digits
		Number  uint64 `json:"number"`         // log number
		First   uint64 `json:"first"`          // position of the first record in this file
		Note    string `json:"note,omitempty"` // what is odd
	}
	// inspectPlace is a place of a log file: a frame, or bytes without one.
	inspectPlace struct {
		Type       string `json:"type"`                  // log place
		File       string `json:"file"`                  // its path
		Offset     int64  `json:"offset"`                // in bytes from the start of the file
		Bytes      int64  `json:"bytes"`                 // length of the place
		Sight      string `json:"sight"`                 // frame, left-over frame, foreign frame, empty, rest, ...
		Number     uint64 `json:"number,omitempty"`      // log number in the frame
		First      uint64 `json:"first,omitempty"`       // position of its first record
		Last       uint64 `json:"last,omitempty"`        // and of its last
		Synced     uint64 `json:"synced,omitempty"`      // records up to here were on stable media
		DataSynced uint64 `json:"data_synced,omitempty"` // and the blocks of those up to here
		Barrier    uint64 `json:"barrier,omitempty"`     // latest barrier record before the frame
		StoreID    string `json:"store_id,omitempty"`    // 32 hex digits
		Note       string `json:"note,omitempty"`        // what is wrong, as after any crash
	}
	// inspectRecord is a record of the log.
	inspectRecord struct {
		Type     string `json:"type"`     // log record
		File     string `json:"file"`     // its path
		Position uint64 `json:"position"` // number of the record
		engine.RecordFacts
		Key string `json:"key,omitempty"` // of a put, as text or hex:...
	}
	// inspectIndexEntry is an entry of the index.
	inspectIndexEntry struct {
		Type string `json:"type"` // index entry
		File string `json:"file"` // the folder
		engine.IndexItem
		Key string `json:"key,omitempty"` // of a block, as text or hex:...
	}
	// inspectDeletions is the file of the newest deletion.
	inspectDeletions struct {
		Type     string `json:"type"`     // deletions
		File     string `json:"file"`     // its path
		Version  uint32 `json:"version"`  // of the format
		StoreID  string `json:"store_id"` // 32 hex digits
		Position uint64 `json:"position"` // log position of the newest deletion
	}
	// inspectLock is the lock file.
	inspectLock struct {
		Type   string `json:"type"`   // lock
		File   string `json:"file"`   // its path
		Holder string `json:"holder"` // the process that wrote it last
		Held   bool   `json:"held"`   // it has the store open now
	}
	// inspectFlaw is something wrong.
	inspectFlaw struct {
		Type   string `json:"type"`   // damage, or note for what a crash or another program explains
		File   string `json:"file"`   // its path
		Offset int64  `json:"offset"` // in bytes from the start of the file
		Text   string `json:"text"`   // what is wrong
	}
	// inspectEnd ends a file.
	inspectEnd struct {
		Type    string `json:"type"`     // end
		File    string `json:"file"`     // its path
		Shown   int    `json:"shown"`    // objects printed, without this one
		LeftOut int    `json:"left_out"` // objects that --limit left out
		Damage  int    `json:"damage"`   // damages met
	}
)

func (*inspectCmd) reports() []any {
	return []any{inspectFile{}, inspectStore{}, inspectNamespace{}, inspectSegment{}, inspectPage{}, inspectPageEntry{}, inspectLogHeader{},
		inspectPlace{}, inspectRecord{}, inspectIndexEntry{}, inspectDeletions{}, inspectLock{}, inspectFlaw{}, inspectEnd{}}
}

// inspection prints what is in one file.
type inspection struct {
	ctx    context.Context
	out    io.Writer
	asJSON bool
	limit  int
	path   string

	shown, leftOut, damage int
	err                    error // of the output, or of the context: nothing is printed any more
}

// always prints one line whatever the limit.
func (in *inspection) always(line any, text func() string) {
	if in.err != nil {
		return
	}
	if in.asJSON {
		in.err = printJSON(in.out, line)
		return
	}
	_, in.err = fmt.Fprintln(in.out, text())
}

// show prints one line, or counts it as left out. It returns false when there
// is no use in going on.
func (in *inspection) show(line any, text func() string) bool {
	if in.limit > 0 && in.shown >= in.limit {
		in.leftOut++
	} else {
		in.always(line, text)
		in.shown++
	}
	if in.err == nil && in.ctx.Err() != nil {
		in.err = &failure{code: exitError, message: "interrupted", cause: in.ctx.Err()}
	}
	return in.err == nil
}

func (in *inspection) begin(kind string, bytes int64) {
	in.always(inspectFile{"file", in.path, kind, bytes}, func() string {
		if bytes == 0 {
			return in.path + ": " + kind
		}
		return fmt.Sprintf("%s: %s, %d bytes", in.path, kind, bytes)
	})
}

// flaw prints what is wrong at a place; damage is counted.
func (in *inspection) flaw(offset int64, text string, damage bool) {
	line := inspectFlaw{"note", in.path, offset, text}
	if damage {
		line.Type = "damage"
		in.damage++
	}
	in.always(line, func() string { return fmt.Sprintf("  %s at offset %d: %s", line.Type, offset, text) })
	in.shown++
}
