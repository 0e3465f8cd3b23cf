package work

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// hollow is a directory whose segments have no slots: transfers of blocks go to
// the null device, with its real queue and rings, and everything else (headers,
// directories, log, store file) to the drive. Segment files are sparse. Reads
// leave memory as it was, so blocks must be zeros and read into zeros.
type hollow struct {
	device.Device
	null device.Device
	dir  string
}

// hollowFile is an open segment.
type hollowFile struct {
	device.File
	null       device.File
	slotsBytes int64 // where the slots end; 0 until the header is known
}

// hollow makes o open such a store. The index lies in the working directory,
// which the child has to itself.
func (j *Job) hollow(o *engine.Options) error {
	if err := os.MkdirAll(j.Dir, 0o755); err != nil {
		return err
	}
	if err := os.Chdir(j.Dir); err != nil {
		return err
	}
	do := device.Options{Engine: j.IOEngine, Rings: j.Rings, QueueDepth: max(j.Depth, 32), Create: true}
	null, err := device.NewNull(do)
	if err != nil {
		return err
	}
	drive, err := device.OpenDir(j.Dir, do)
	if err != nil {
		return errors.Join(err, null.Close())
	}
	o.Dir, o.Device, o.IndexFS = "", &hollow{Device: drive, null: null, dir: j.Dir}, vfs.Default
	return nil
}

func isSegment(name string) bool { return strings.HasPrefix(name, "seg-") }

// Create makes a sparse segment; other files are the drive's.
func (h *hollow) Create(name string, sizeBytes int64) (device.File, error) {
	if !isSegment(name) {
		return h.Device.Create(name, sizeBytes)
	}
	f, err := os.OpenFile(filepath.Join(h.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(sizeBytes), f.Close()); err != nil {
		return nil, err
	}
	return h.openSegment(name, false)
}

// Open implements device.Device.
func (h *hollow) Open(name string) (device.File, error) {
	if !isSegment(name) {
		return h.Device.Open(name)
	}
	return h.openSegment(name, true)
}

func (h *hollow) openSegment(name string, header bool) (device.File, error) {
	f, err := h.Device.Open(name)
	if err != nil {
		return nil, err
	}
	null, err := h.null.Open(name)
	if err != nil {
		null, err = h.null.Create(name, f.SizeBytes())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &hollowFile{File: f, null: null}
	if header {
		page := device.AlignedBuffer(pageBytes, pageBytes)
		if err := device.Do(h.Device, &device.Op{Kind: device.Read, File: f, Bufs: [][]byte{page}}); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.learn(page)
	}
	return s, nil
}

// learn takes the extent of the slots from the header (docs/format/segment.md).
func (f *hollowFile) learn(header []byte) {
	slots, slotBytes := binary.LittleEndian.Uint32(header[76:]), binary.LittleEndian.Uint32(header[80:])
	f.slotsBytes = pageBytes + int64(slots)*int64(slotBytes)
}

// Close implements device.File.
func (f *hollowFile) Close() error { return errors.Join(f.File.Close(), f.null.Close()) }

// Remove implements device.Device.
func (h *hollow) Remove(name string) error {
	err := h.Device.Remove(name)
	if isSegment(name) {
		err = errors.Join(err, h.null.Remove(name))
	}
	return err
}

// Rename implements device.Device. Nothing renames a segment.
func (h *hollow) Rename(oldName, newName string) error {
	if isSegment(oldName) || isSegment(newName) {
		return fmt.Errorf("hollow: segment %s renamed to %s", oldName, newName)
	}
	return h.Device.Rename(oldName, newName)
}

// Submit implements device.Device.
func (h *hollow) Submit(ops []*device.Op) {
	var drive, null []*device.Op
	if len(ops) == 1 && h.sort(ops[0]) { // the common case allocates nothing
		h.null.Submit(ops)
		return
	} else if len(ops) == 1 {
		h.Device.Submit(ops)
		return
	}
	for _, op := range ops {
		if h.sort(op) {
			null = append(null, op)
		} else {
			drive = append(drive, op)
		}
	}
	h.Device.Submit(drive)
	h.null.Submit(null)
}

// sort gives an op its file and reports whether it is the null device's.
func (h *hollow) sort(op *device.Op) bool {
	f, ok := op.File.(*hollowFile)
	if !ok {
		return false
	}
	if op.Kind == device.Write && op.Offset == 0 {
		f.learn(op.Bufs[0])
	}
	slots := (op.Kind == device.Read || op.Kind == device.Write) && op.Offset >= pageBytes && op.Offset < f.slotsBytes
	if slots || op.Kind == device.Punch {
		op.File = f.null
		return true
	}
	op.File = f.File
	return false
}

// Close implements device.Device.
func (h *hollow) Close() error { return errors.Join(h.Device.Close(), h.null.Close()) }

// Space implements device.Device: slots take none.
func (h *hollow) Space() (device.Space, error) { return h.null.Space() }
