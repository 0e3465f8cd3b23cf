package trace

import (
	"fmt"
	"io"
)

// Reader streams the requests of one trace. Memory is bounded by the longest
// line (16 MiB at most) and the decompressor's window (128 MiB at most).
type Reader struct {
	*lines
	previousMS int64
	err        error // the first error, repeated by every later Next
}

// Open opens a trace file. The caller closes the Reader.
func Open(path string) (*Reader, error) {
	l, err := openLines(path)
	if err != nil {
		return nil, err
	}
	return &Reader{lines: l}, nil
}

// NewReader reads a trace from src; name stands in errors. Compression is
// recognised by the first bytes. Close does not close src.
func NewReader(src io.Reader, name string) (*Reader, error) {
	l, err := newLines(src, name)
	if err != nil {
		return nil, err
	}
	return &Reader{lines: l}, nil
}

// Next answers the next request, io.EOF after the last one. Empty lines are
// skipped. A fault is a *Error; the Reader then answers the same one for ever.
func (r *Reader) Next() (Request, error) {
	if r.err != nil {
		return Request{}, r.err
	}
	q, err := r.read()
	r.err = err
	return q, err
}

func (r *Reader) read() (Request, error) {
	text, err := r.nextFull()
	if err != nil {
		return Request{}, err
	}
	q, reason := parse(text)
	if reason != "" {
		return Request{}, r.fail(r.line, reason, nil)
	}
	if q.TimestampMS < r.previousMS {
		return Request{}, r.fail(r.line, fmt.Sprintf("timestamp %d comes after %d: the lines are not in time order",
			q.TimestampMS, r.previousMS), nil)
	}
	r.previousMS = q.TimestampMS
	return q, nil
}
