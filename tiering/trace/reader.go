package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

const (
	lineBytesMax    = 16 << 20  // a line longer than this is refused
	decoderBytesMax = 128 << 20 // memory a compressed trace may ask for
	readBufferBytes = 256 << 10
)

var (
	magicZstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
	magicGzip = []byte{0x1f, 0x8b}
)

// Reader streams the requests of one trace. Memory is bounded by the longest
// line (16 MiB at most) and the decompressor's window (128 MiB at most).
type Reader struct {
	name       string
	lines      *bufio.Reader
	line       int
	previousMS int64
	long       []byte // a line longer than the buffer
	decoder    *zstd.Decoder
	file       io.Closer
	err        error // the first error, repeated by every later Next
}

// Open opens a trace file. The caller closes the Reader.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.file = f
	return r, nil
}

// NewReader reads a trace from src; name stands in errors. Compression is
// recognised by the first bytes. Close does not close src.
func NewReader(src io.Reader, name string) (*Reader, error) {
	r := &Reader{name: name}
	raw := bufio.NewReaderSize(src, readBufferBytes)
	magic, err := raw.Peek(len(magicZstd))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, r.fail(0, "cannot be read: "+err.Error(), err)
	}
	switch {
	case bytes.HasPrefix(magic, magicGzip):
		return nil, r.fail(0, "is compressed with gzip; plain and zstd are read", nil)
	case bytes.HasPrefix(magic, magicZstd):
		r.decoder, err = zstd.NewReader(raw, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(decoderBytesMax), zstd.WithDecoderMaxMemory(decoderBytesMax))
		if err != nil {
			return nil, r.fail(0, "cannot be decompressed: "+err.Error(), err)
		}
		r.lines = bufio.NewReaderSize(r.decoder, readBufferBytes)
	default:
		r.lines = raw
	}
	return r, nil
}

// Next answers the next request, io.EOF after the last one. Empty lines are
// skipped. A fault is a *Error; the Reader then answers the same one for ever.
func (r *Reader) Next() (Request, error) {
	if r.err != nil {
		return Request{}, r.err
	}
	q, err := r.next()
	r.err = err
	return q, err
}

// Close releases the decompressor, and the file if Open opened it.
func (r *Reader) Close() error {
	if r.decoder != nil {
		r.decoder.Close()
	}
	if r.file != nil {
		return r.file.Close()
	}
	return nil
}

func (r *Reader) next() (Request, error) {
	for {
		text, err := r.readLine()
		if err != nil {
			return Request{}, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
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
}

// readLine answers the next line, valid until the next call; io.EOF at the end.
func (r *Reader) readLine() ([]byte, error) {
	r.line++
	r.long = r.long[:0]
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(r.long)+len(part) > lineBytesMax {
			return nil, r.fail(r.line, fmt.Sprintf("longer than %d bytes", lineBytesMax), nil)
		}
		if err == nil && len(r.long) == 0 {
			return part, nil
		}
		r.long = append(r.long, part...)
		switch {
		case err == nil:
			return r.long, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(r.long) > 0:
			return r.long, nil
		case err == io.EOF:
			return nil, io.EOF
		default:
			return nil, r.readFault(err)
		}
	}
}

func (r *Reader) readFault(err error) error {
	if r.decoder == nil {
		return r.fail(r.line, "cannot be read: "+err.Error(), err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return r.fail(r.line, "the compressed file ends in the middle", err)
	}
	return r.fail(r.line, "cannot be decompressed: "+err.Error(), err)
}

func (r *Reader) fail(line int, reason string, err error) error {
	return &Error{File: r.name, Line: line, Reason: reason, Err: err}
}
