package wal

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
)

// windowBytes is what one read of recovery fetches; it holds the largest frame.
const windowBytes = 4 * frameBytesMax

// Bounds of waiting for room in the device's queue. An operation that found the
// queue full was never started, so trying again is no second attempt at a
// failed one.
const (
	queueFullTries   = 1000
	queueFullWaitMax = 10 * time.Millisecond
)

// do runs one device operation and waits for its end.
func do(dev device.Device, op device.Op) error {
	wait := 100 * time.Microsecond
	for try := 0; ; try++ {
		attempt := op
		err := device.Do(dev, &attempt)
		if !errors.Is(err, device.ErrQueueFull) || try == queueFullTries {
			return err
		}
		time.Sleep(wait)
		wait = min(2*wait, queueFullWaitMax)
	}
}

func readAt(dev device.Device, f device.File, b []byte, offset int64) error {
	return do(dev, device.Op{Kind: device.Read, File: f, Offset: offset, Bufs: [][]byte{b}})
}

func writeAt(dev device.Device, f device.File, b []byte, offset int64) error {
	return do(dev, device.Op{Kind: device.Write, File: f, Offset: offset, Bufs: [][]byte{b}, First: true})
}

func syncFile(dev device.Device, f device.File) error {
	return do(dev, device.Op{Kind: device.Sync, File: f})
}

// alignedUnits is a buffer for transfers of whole units.
func alignedUnits(dev device.Device, nBytes int) ([]byte, error) {
	facts := dev.Facts()
	if facts.OffsetAlignBytes < 1 || unitBytes%facts.OffsetAlignBytes != 0 {
		return nil, fmt.Errorf("%w: the device wants offsets in multiples of %d, frames come in units of %d",
			ErrConfig, facts.OffsetAlignBytes, unitBytes)
	}
	return device.AlignedBuffer(nBytes, facts.MemAlignBytes), nil
}

// fileReader reads one file through a window. An I/O error is a fact about the
// units it hits, not the end of the reading.
type fileReader struct {
	name   string
	read   func(b []byte, offset int64) error // fills b, which is aligned units
	size   int64                              // whole units, at most fileBytesMax
	window []byte
	start  int64 // offset of the window in the file
	length int   // bytes of window in use
	bad    map[int64]error
}

// view returns n bytes at offset, whole units within the file. damaged is the
// device's error if one of the units cannot be read; err means that the device
// could not be asked. The memory is valid until the next call.
func (r *fileReader) view(offset int64, n int) (b []byte, damaged, err error) {
	if offset < r.start || offset+int64(n) > r.start+int64(r.length) {
		if err := r.fill(offset); err != nil {
			return nil, nil, err
		}
	}
	for at := offset; at < offset+int64(n); at += unitBytes {
		if cause := r.bad[at]; cause != nil {
			return nil, cause, nil
		}
	}
	at := offset - r.start
	return r.window[at : at+int64(n)], nil, nil
}

// fill loads the window from offset on; after an error unit by unit.
func (r *fileReader) fill(offset int64) error {
	r.start, r.length = offset, int(min(int64(len(r.window)), r.size-offset))
	clear(r.bad)
	whole := r.read(r.window[:r.length], offset)
	if whole == nil {
		return nil
	}
	for at := 0; at < r.length; at += unitBytes {
		err := r.read(r.window[at:at+unitBytes], offset+int64(at))
		switch {
		case err == nil:
		case notAsked(err):
			r.length = 0
			return fmt.Errorf("wal: reading %s: %w", r.name, err)
		default:
			r.bad[offset+int64(at)] = err
		}
	}
	return nil
}

// notAsked reports whether err comes from the device's front door: it says
// nothing about the medium.
func notAsked(err error) bool {
	return errors.Is(err, device.ErrClosed) || errors.Is(err, device.ErrQueueFull) || errors.Is(err, device.ErrUnaligned)
}
