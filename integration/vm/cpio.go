package vm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
)

// Kinds of files, as cpio and stat have them.
const (
	modeDir     = 0o040000
	modeFile    = 0o100000
	modeLink    = 0o120000
	modeCharDev = 0o020000
)

// archive writes an initial file system: cpio in the "newc" form that the kernel reads.
// The first error of w stays and comes from close. Folders above a file come by themselves.
type archive struct {
	w       *bufio.Writer
	inode   int
	written int64
	has     map[string]bool
}

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriterSize(w, 1<<20), has: map[string]bool{".": true, "": true}}
}

// entry writes the header of a file at the path name, without its leading slash, and makes
// the folders above it. False: the path is there already.
func (a *archive) entry(name string, mode, size int64, major, minor int) bool {
	if a.has[name] {
		return false
	}
	if dir := path.Dir(name); !a.has[dir] {
		a.entry(dir, modeDir|0o755, 0, 0, 0)
	}
	a.has[name] = true
	a.inode++
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, len(name)+1, 0, name)
	a.write([]byte(head))
	a.align()
	return true
}

func (a *archive) write(b []byte) {
	n, _ := a.w.Write(b)
	a.written += int64(n)
}

func (a *archive) align() {
	a.write(make([]byte, (4-a.written%4)%4))
}

// file writes bytes as the file name.
func (a *archive) file(name string, mode int64, content []byte) {
	if a.entry(name, modeFile|mode, int64(len(content)), 0, 0) {
		a.write(content)
		a.align()
	}
}

// copy writes the file at host, links followed, as the file name.
func (a *archive) copy(name, host string) error {
	f, err := os.Open(host)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	if !a.entry(name, modeFile|mode, info.Size(), 0, 0) {
		return nil
	}
	n, err := io.Copy(a.w, f)
	a.written += n
	if err == nil && n != info.Size() {
		err = fmt.Errorf("%s: %d bytes, had %d", host, n, info.Size())
	}
	a.align()
	return err
}

// link writes a symbolic link.
func (a *archive) link(name, to string) {
	if a.entry(name, modeLink|0o777, int64(len(to)), 0, 0) {
		a.write([]byte(to))
		a.align()
	}
}

func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, 0, 0, 0)
	return a.w.Flush()
}
