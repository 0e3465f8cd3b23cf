package device

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/pkg/xattr"
	"golang.org/x/sys/unix"
)

// defaultAlignBytes suits every drive in use: the physical sector. Offsets are
// never aligned to less, even where the kernel would take 512: a write below
// the physical sector makes the drive read and write the rest of it.
const defaultAlignBytes = 4096

// probe finds out what the directory can do, each time by the call that is
// used later, on files that lose their name before anything is done to them.
func (d *psync) probe() error {
	if err := d.probeDirect(); err != nil {
		return err
	}
	f, err := d.probeFile(0)
	if isFull(err) {
		d.facts.Xattrs, d.facts.Preallocate, d.punch = true, true, true
		d.note("the file system is full: extended attributes and fallocate could not be probed and are taken for granted")
		return nil
	}
	if err != nil {
		return d.where(err)
	}
	defer f.Close()
	d.facts.Xattrs = d.feature("extended attributes are", "segments carry their identity in the header alone", probeXattr(f))
	fd := int(f.Fd())
	d.facts.Preallocate = d.feature("fallocate is", "new files are filled with zeros",
		retry(func() error { return unix.Fallocate(fd, 0, 0, defaultAlignBytes) }))
	d.punch = d.feature("hole punching is", "freed ranges are overwritten with zeros and keep their space", retry(func() error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, defaultAlignBytes)
	}))
	if !d.facts.Preallocate || !d.punch {
		d.zeros = AlignedBuffer(zerosBytes, max(d.facts.MemAlignBytes, d.facts.OffsetAlignBytes))
	}
	return nil
}

func (d *psync) note(text string) { d.facts.Notes = append(d.facts.Notes, text) }

// feature turns the result of a probe into a fact, and a failure into a note.
// A full disk proves nothing against a feature.
func (d *psync) feature(what, instead string, err error) bool {
	if err == nil || isFull(err) {
		return true
	}
	text := fmt.Sprintf("%s not available (%v): %s", what, err, instead)
	d.note(text)
	d.options.Logger.Warn(text, "dir", d.dir, "file_system", d.facts.FileSystem)
	return false
}

// probeFile makes an empty file that has already lost its name.
func (d *psync) probeFile(flags int) (*os.File, error) {
	name := probePrefix + strconv.FormatUint(d.tempSeq.Add(1), 10)
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|flags, 0o640)
	// An open that is refused for O_DIRECT may have made the file all the same.
	removeErr := d.root.Remove(name)
	if err != nil {
		return nil, err
	}
	if removeErr != nil {
		_ = f.Close()
		return nil, removeErr
	}
	return f, nil
}

// probeDirect settles Direct and both alignments.
func (d *psync) probeDirect() error {
	d.facts.MemAlignBytes, d.facts.OffsetAlignBytes = defaultAlignBytes, defaultAlignBytes
	cause := d.tryDirect()
	if isFull(cause) {
		d.note("the file system is full: direct I/O could not be probed by a write and is taken for granted")
		cause = nil
	}
	if cause == nil {
		d.facts.Direct = true
		if slices.Contains(inMemory, d.facts.FileSystem) {
			d.note(d.facts.FileSystem + " accepts direct I/O but keeps its files in memory: speeds are not a drive's")
		}
		return nil
	}
	if !d.options.BufferedIO {
		return &UnsupportedError{Dir: d.dir, FileSystem: d.facts.FileSystem,
			Problem: fmt.Sprintf("direct I/O does not work here (%v)", cause),
			Remedy:  "use a directory on ext4 or XFS, or allow I/O through the page cache (BufferedIO)"}
	}
	d.options.Logger.Warn("direct I/O is not available, using the page cache",
		"dir", d.dir, "file_system", d.facts.FileSystem, "cause", cause)
	return nil
}

// tryDirect writes and reads one block past the page cache, first with the
// alignment that the kernel reports, then with the default.
func (d *psync) tryDirect() error {
	f, err := d.probeFile(syscall.O_DIRECT)
	if err != nil {
		return err
	}
	defer f.Close()
	memBytes, offsetBytes, known := reportedAlignment(f)
	if known && memBytes == 0 {
		return errors.New("the kernel reports no direct I/O for files here")
	}
	if known {
		if err = d.echo(f, memBytes, offsetBytes); err == nil || isFull(err) {
			d.facts.MemAlignBytes, d.facts.OffsetAlignBytes = memBytes, offsetBytes
			return err
		}
	}
	return d.echo(f, defaultAlignBytes, defaultAlignBytes)
}

// reportedAlignment asks statx. known is false on kernels and file systems
// that do not answer; both alignments are 0 where direct I/O is refused.
func reportedAlignment(f *os.File) (memBytes, offsetBytes int, known bool) {
	var s unix.Statx_t
	err := retry(func() error { return unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &s) })
	if err != nil || s.Mask&unix.STATX_DIOALIGN == 0 {
		return 0, 0, false
	}
	if s.Dio_mem_align == 0 || s.Dio_offset_align == 0 {
		return 0, 0, true
	}
	return int(s.Dio_mem_align), max(int(s.Dio_offset_align), defaultAlignBytes), true
}

// echo writes one block and reads it back, from and into memory that is no
// better aligned than memBytes.
func (d *psync) echo(f *os.File, memBytes, offsetBytes int) error {
	const away = 2 // alignments that a buffer is moved off a rounder address
	piece := func() []byte {
		b := AlignedBuffer(offsetBytes+memBytes, away*memBytes)
		return b[memBytes:]
	}
	sent, got := piece(), piece()
	for i := range sent {
		sent[i] = byte(i*7 + i>>8)
	}
	v := new(vector)
	probed := &file{d: d, f: f, fd: int(f.Fd()), name: "probe", sizeBytes: int64(offsetBytes)}
	if _, err := v.transfer(Write, probed, 0, [][]byte{sent}); err != nil {
		return err
	}
	if _, err := v.transfer(Read, probed, 0, [][]byte{got}); err != nil {
		return err
	}
	if !bytes.Equal(sent, got) {
		return errors.New("a block reads back changed")
	}
	return nil
}

// probeXattr sets and reads an attribute of f.
func probeXattr(f *os.File) error {
	value := []byte("probe")
	if err := xattr.FSet(f, attrPrefix+"probe", value); err != nil {
		return unwrapXattr(err)
	}
	got, err := xattr.FGet(f, attrPrefix+"probe")
	if err != nil {
		return unwrapXattr(err)
	}
	if !bytes.Equal(got, value) {
		return errors.New("an attribute reads back changed")
	}
	return nil
}

// unwrapXattr leaves out the name of a file that has none.
func unwrapXattr(err error) error {
	var e *xattr.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
