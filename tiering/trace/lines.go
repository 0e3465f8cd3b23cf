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

// lines are those of one file, plain or compressed with zstd.
type lines struct {
	name    string
	text    *bufio.Reader
	line    int    // number of the newest, from 1
	long    []byte // a line longer than the buffer
	decoder *zstd.Decoder
	file    io.Closer
}

func openLines(path string) (*lines, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l, err := newLines(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	l.file = f
	return l, nil
}

// newLines reads from src; name stands in errors. Compression is recognised by
// the first bytes. Close does not close src.
func newLines(src io.Reader, name string) (*lines, error) {
	l := &lines{name: name}
	raw := bufio.NewReaderSize(src, readBufferBytes)
	magic, err := raw.Peek(len(magicZstd))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, l.fail(0, "cannot be read: "+err.Error(), err)
	}
	switch {
	case bytes.HasPrefix(magic, magicGzip):
		return nil, l.fail(0, "is compressed with gzip; plain and zstd are read", nil)
	case bytes.HasPrefix(magic, magicZstd):
		l.decoder, err = zstd.NewReader(raw, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(decoderBytesMax), zstd.WithDecoderMaxMemory(decoderBytesMax))
		if err != nil {
			return nil, l.fail(0, "cannot be decompressed: "+err.Error(), err)
		}
		l.text = bufio.NewReaderSize(l.decoder, readBufferBytes)
	default:
		l.text = raw
	}
	return l, nil
}

// Close releases the decompressor, and the file if openLines opened it.
func (l *lines) Close() error {
	if l.decoder != nil {
		l.decoder.Close()
	}
	if l.file != nil {
		return l.file.Close()
	}
	return nil
}

// nextFull answers the next line that is not empty, without the blanks around it,
// valid until the next call; io.EOF at the end.
func (l *lines) nextFull() ([]byte, error) {
	for {
		text, err := l.readLine()
		if err != nil {
			return nil, err
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			return text, nil
		}
	}
}

// readLine answers the next line, valid until the next call; io.EOF at the end.
func (l *lines) readLine() ([]byte, error) {
	l.line++
	l.long = l.long[:0]
	for {
		part, err := l.text.ReadSlice('\n')
		if len(l.long)+len(part) > lineBytesMax {
			return nil, l.fail(l.line, fmt.Sprintf("longer than %d bytes", lineBytesMax), nil)
		}
		if err == nil && len(l.long) == 0 {
			return part, nil
		}
		l.long = append(l.long, part...)
		switch {
		case err == nil:
			return l.long, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(l.long) > 0:
			return l.long, nil
		case err == io.EOF:
			return nil, io.EOF
		default:
			return nil, l.readFault(err)
		}
	}
}

func (l *lines) readFault(err error) error {
	if l.decoder == nil {
		return l.fail(l.line, "cannot be read: "+err.Error(), err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return l.fail(l.line, "the compressed file ends in the middle", err)
	}
	return l.fail(l.line, "cannot be decompressed: "+err.Error(), err)
}

func (l *lines) fail(line int, reason string, err error) error {
	return &Error{File: l.name, Line: line, Reason: reason, Err: err}
}
