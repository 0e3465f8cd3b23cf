package trace

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
)

// IO is one line of the I/O trace of MLPerf Storage's KV-cache benchmark: a
// whole entry, the KV of one turn of a conversation, read or written.
type IO struct {
	TimeNS int64 // from the first line of the file; never negative
	Write  bool
	Bytes  int64
	Tier   int    // 0 GPU, 1 host memory, 2 NVMe
	Key    []byte // valid until the next call of Next
}

// kvioColumns are the fields that are read, by their names in the header.
var kvioColumns = [...]string{"Timestamp", "Operation", "Object_Size_Bytes", "Tier", "Key"}

const (
	kvioTime = iota
	kvioOperation
	kvioBytes
	kvioTier
	kvioKey
)

// KVIOReader streams the lines of an MLPerf KV-cache I/O trace: comma-separated
// values below a header, plain or compressed with zstd. Memory is bounded as
// that of a Reader. Lines may be a little out of order, as several threads wrote
// them.
type KVIOReader struct {
	*lines
	place   [len(kvioColumns)]int // of each column
	columns int
	fields  [][]byte
	firstNS int64
	begun   bool
	err     error
}

// OpenKVIO opens such a trace. The caller closes the reader.
func OpenKVIO(path string) (*KVIOReader, error) {
	l, err := openLines(path)
	if err != nil {
		return nil, err
	}
	return &KVIOReader{lines: l}, nil
}

// NewKVIOReader reads such a trace from src; name stands in errors.
func NewKVIOReader(src io.Reader, name string) (*KVIOReader, error) {
	l, err := newLines(src, name)
	if err != nil {
		return nil, err
	}
	return &KVIOReader{lines: l}, nil
}

// Next answers the next line, io.EOF after the last. A fault is a *Error; the
// reader then answers the same one for ever.
func (r *KVIOReader) Next() (IO, error) {
	if r.err != nil {
		return IO{}, r.err
	}
	if r.columns == 0 {
		if r.err = r.header(); r.err != nil {
			return IO{}, r.err
		}
	}
	text, err := r.nextFull()
	if err != nil {
		r.err = err
		return IO{}, err
	}
	io, reason := r.parse(text)
	if reason != "" {
		r.err = r.fail(r.line, reason, nil)
		return IO{}, r.err
	}
	return io, nil
}

func (r *KVIOReader) header() error {
	text, err := r.nextFull()
	if err != nil {
		if err == io.EOF {
			return r.fail(0, "is empty: the header is missing", nil)
		}
		return err
	}
	names := bytes.Split(text, []byte(","))
	for i, want := range kvioColumns {
		r.place[i] = -1
		for at, name := range names {
			if string(bytes.TrimSpace(name)) == want {
				r.place[i] = at
			}
		}
		if r.place[i] < 0 {
			return r.fail(r.line, fmt.Sprintf("no column %s in the header; an I/O trace of the MLPerf KV-cache benchmark has it", want), nil)
		}
	}
	r.columns = len(names)
	return nil
}

// parse decodes one line. A non-empty reason says why it cannot.
func (r *KVIOReader) parse(text []byte) (q IO, reason string) {
	r.fields = r.fields[:0]
	for field := range bytes.SplitSeq(text, []byte(",")) {
		r.fields = append(r.fields, bytes.TrimSpace(field))
	}
	if len(r.fields) != r.columns {
		return q, fmt.Sprintf("%d fields where the header has %d", len(r.fields), r.columns)
	}
	at := func(column int) []byte { return r.fields[r.place[column]] }

	seconds, err := strconv.ParseFloat(string(at(kvioTime)), 64)
	if err != nil || !(seconds >= 0 && seconds < math.MaxInt64/1e9) {
		return q, fmt.Sprintf("timestamp %.40q is no number of seconds", at(kvioTime))
	}
	ns := int64(seconds * 1e9)
	if !r.begun {
		r.begun, r.firstNS = true, ns
	}
	q.TimeNS = max(ns-r.firstNS, 0)

	switch string(at(kvioOperation)) {
	case "Read":
	case "Write":
		q.Write = true
	default:
		return q, fmt.Sprintf("operation %.40q is neither Read nor Write", at(kvioOperation))
	}
	q.Bytes, err = strconv.ParseInt(string(at(kvioBytes)), 10, 64)
	if err != nil || q.Bytes <= 0 {
		return q, fmt.Sprintf("size %.40q is no number of bytes above 0", at(kvioBytes))
	}
	tier, isTier := bytes.CutPrefix(at(kvioTier), []byte("Tier-"))
	if !isTier || len(tier) != 1 || tier[0] < '0' || tier[0] > '2' {
		return q, fmt.Sprintf("tier %.40q is none of Tier-0, Tier-1, Tier-2", at(kvioTier))
	}
	q.Tier = int(tier[0] - '0')
	if q.Key = at(kvioKey); len(q.Key) == 0 {
		return q, "no key"
	}
	return q, ""
}
