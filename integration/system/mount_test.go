package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// disk is one small file system in an image file, mounted on dir. The loop
// device goes with the mount, the mount with the test (or with the process,
// which has a mount namespace of its own).
type disk struct {
	image, dir, kind, options string
	mounted                   bool
}

// newDisk makes and mounts a file system of this kind (ext4, xfs).
func newDisk(t *testing.T, kind string, mebibytes int64, options string) *disk {
	t.Helper()
	requireTools(t, "losetup", "mkfs."+kind, "mount", "umount")
	d := &disk{image: filepath.Join(t.TempDir(), "image"), dir: filepath.Join(t.TempDir(), "mnt"), kind: kind, options: "loop"}
	if options != "" {
		d.options += "," + options
	}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(mebibytes << 20); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	args := map[string][]string{"ext4": {"-q", "-m", "0", d.image}, "xfs": {"-q", d.image}} // -m 0: no room kept for root
	shell(t, "mkfs."+kind, args[kind]...)
	t.Cleanup(func() {
		if d.mounted {
			d.unmount(t)
		}
	})
	d.mount(t, d.options)
	return d
}

func (d *disk) mount(t *testing.T, options string) {
	t.Helper()
	out, err := exec.Command("mount", "-t", d.kind, "-o", options, d.image, d.dir).CombinedOutput()
	if err != nil {
		t.Skipf("%s cannot be mounted on a loop device here: %v: %s", d.kind, err, out)
	}
	d.mounted = true
}

func (d *disk) unmount(t *testing.T) {
	t.Helper()
	d.mounted = false
	var out []byte
	var err error
	for range 100 { // the kernel lets go of a ring's files a moment after its end
		if out, err = exec.Command("umount", d.dir).CombinedOutput(); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		t.Errorf("umount %s: %v: %s; this process has open: %v", d.dir, err, out, openBelow(t, d.dir))
		shell(t, "umount", "--lazy", d.dir)
	}
}

// openBelow lists the files below dir that this process has open.
func openBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err == nil && strings.HasPrefix(target, dir) {
			files = append(files, target)
		}
	}
	return files
}

// again unmounts and mounts: the file system repairs itself.
func (d *disk) again(t *testing.T) {
	t.Helper()
	d.unmount(t)
	d.mount(t, d.options)
}

// device is the loop device's name, such as loop0.
func (d *disk) device(t *testing.T) string {
	t.Helper()
	return filepath.Base(shell(t, "findmnt", "-no", "SOURCE", d.dir))
}

// freeBytes is the room that is left.
func (d *disk) freeBytes(t *testing.T) int64 {
	t.Helper()
	var n int64
	if _, err := fmt.Sscan(shell(t, "stat", "-f", "-c", "%a", d.dir), &n); err != nil {
		t.Fatal(err)
	}
	var unit int64
	if _, err := fmt.Sscan(shell(t, "stat", "-f", "-c", "%S", d.dir), &unit); err != nil {
		t.Fatal(err)
	}
	return n * unit
}

// fillAllBut takes the room except for so many bytes.
func (d *disk) fillAllBut(t *testing.T, leaveBytes int64) {
	t.Helper()
	shell(t, "fallocate", "-l", fmt.Sprint(d.freeBytes(t)-leaveBytes), filepath.Join(d.dir, "filler"))
}

// fillUp takes all the room that is left and returns the file that holds it.
func (d *disk) fillUp(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(d.dir, "filler")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 1<<20)
	for len(data) >= 512 {
		if _, err := f.Write(data); err != nil {
			data = data[:len(data)/2]
			continue
		}
		if err := f.Sync(); err != nil {
			break
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// ramfs mounts a file system without direct I/O, attributes and fallocate.
func ramfs(t *testing.T) (dir string) {
	t.Helper()
	requireTools(t, "mount", "umount")
	dir = t.TempDir()
	shell(t, "mount", "-t", "ramfs", "none", dir)
	t.Cleanup(func() { shell(t, "umount", dir) })
	return dir
}
