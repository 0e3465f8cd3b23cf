package device_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/engine/device"
)

const (
	writerEnv   = "SPILLWAY_TEST_WRITER" // the directory in which a child writes
	writerParts = 32
	partBytes   = 64 << 10
)

// ioctls that stop all writing to a file system, and let it go on.
const (
	freeze = 0xc0045877
	thaw   = 0xc0045878
)

// loopMount mounts a new ext4 of sizeBytes, kept in dir/image.
func loopMount(t *testing.T, dir string, sizeBytes int64) (mountPoint string) {
	t.Helper()
	image, mountPoint := filepath.Join(dir, "image"), filepath.Join(t.TempDir(), "mount")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, sizeBytes), os.Mkdir(mountPoint, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, mountPoint}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%q: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mountPoint).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
			_ = unix.Unmount(mountPoint, unix.MNT_DETACH)
		}
	})
	return mountPoint
}

// TestKilledWriter kills a process whose writes are stuck in the drive: its
// directory stays locked until the last of them has landed. The drive is a loop
// device on a file system that is frozen meanwhile.
func TestKilledWriter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	wantRing(t)
	outer := loopMount(t, t.TempDir(), 96<<20)
	dir := loopMount(t, outer, 48<<20)
	old := bytes.Repeat([]byte{1}, writerParts*partBytes)
	writeAll(t, dir, old)

	child := exec.Command(os.Args[0], "-test.run=^TestWriter$")
	child.Env = append(os.Environ(), writerEnv+"="+dir)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	want := func(line string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); got != line+"\n" {
			t.Errorf("the child said %q, %v", got, err)
		}
	}
	want("ready")
	thawNow := freezeMount(t, outer)
	_, _ = io.WriteString(stdin, "go\n")
	want("submitted")
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // "signal: killed"
	d, err := device.OpenDir(dir, device.Options{LockWait: 100 * time.Millisecond})
	thawNow()
	var inUse *device.InUseError
	if err == nil {
		closeDevice(t, d)
		t.Fatal("the directory could be opened while writes of a dead process were in flight")
	}
	if !errors.As(err, &inUse) {
		t.Fatal(err)
	}
	if d, err = device.OpenDir(dir, device.Options{LockWait: time.Minute}); err != nil {
		t.Fatalf("after the writes have landed: %v", err)
	}
	f, err := d.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	got := device.AlignedBuffer(len(old), 4096)
	if err := device.Do(d, &device.Op{Kind: device.Read, File: f, Bufs: [][]byte{got}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, bytes.Repeat([]byte{2}, len(old))) {
		t.Error("a write that was in the drive has not landed although the lock is free")
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// freezeMount stops a file system; the test thaws it in any case.
func freezeMount(t *testing.T, mountPoint string) (thawNow func()) {
	t.Helper()
	f, err := os.Open(mountPoint)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetInt(int(f.Fd()), freeze, 0); err != nil {
		_ = f.Close()
		t.Skipf("freezing: %v", err)
	}
	thawNow = sync.OnceFunc(func() {
		if err := errors.Join(unix.IoctlSetInt(int(f.Fd()), thaw, 0), f.Close()); err != nil {
			t.Errorf("thawing: %v", err)
		}
	})
	// An opening that should have been refused would hang in its first write.
	timer := time.AfterFunc(10*time.Second, thawNow)
	t.Cleanup(func() { timer.Stop(); thawNow() })
	return thawNow
}

func writeAll(t *testing.T, dir string, content []byte) {
	t.Helper()
	d, err := device.OpenDir(dir, device.Options{Engine: device.EngineUring})
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Create("f", int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	src := device.AlignedBuffer(len(content), 4096)
	copy(src, content)
	for _, op := range []*device.Op{{Kind: device.Write, File: f, Bufs: [][]byte{src}}, {Kind: device.Sync, File: f}} {
		if err := device.Do(d, op); err != nil {
			t.Fatal(err)
		}
	}
	closeFile(t, f)
	closeDevice(t, d)
}

// TestWriter is the process that gets killed.
func TestWriter(t *testing.T) {
	dir := os.Getenv(writerEnv)
	if dir == "" {
		t.Skip("TestKilledWriter runs this in a child process")
	}
	d, err := device.OpenDir(dir, device.Options{Engine: device.EngineUring})
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	ops := make([]*device.Op, writerParts)
	for i := range ops {
		src := device.AlignedBuffer(partBytes, 4096)
		for at := range src {
			src[at] = 2
		}
		ops[i] = &device.Op{Kind: device.Write, File: f, Offset: int64(i) * partBytes, Bufs: [][]byte{src}, Done: func(*device.Op) {}}
	}
	fmt.Println("ready")
	stdin := bufio.NewReader(os.Stdin)
	if _, err := stdin.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	d.Submit(ops)
	fmt.Println("submitted")
	_, _ = io.Copy(io.Discard, stdin) // until killed, or left alone
}
