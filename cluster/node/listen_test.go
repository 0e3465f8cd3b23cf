package node

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func reserve(t *testing.T, path string) *Reservation {
	t.Helper()
	r, err := Reserve(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func listen(t *testing.T, r *Reservation, mode os.FileMode, group int) *net.UnixListener {
	t.Helper()
	l, err := r.Listen(mode, group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// refused wants a *SocketError that says so.
func refused(t *testing.T, path, say string) {
	t.Helper()
	r, err := Reserve(path)
	if err == nil {
		r.Close()
	}
	var wrong *SocketError
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), say) || wrong.Remedy == "" {
		t.Errorf("%s: %v, want a refusal that says %q", path, err, say)
	}
}

func connects(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// TestStaleSocket: what a killed daemon leaves is no obstacle.
func TestStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 3 {
		for _, name := range []string{path, path + newSuffix} {
			dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			dead.SetUnlinkOnClose(false)
			_ = dead.Close()
		}
		if _, err := os.Lstat(path); err != nil || connects(path) {
			t.Fatalf("no stale socket: %v", err)
		}
		r, err := Reserve(path)
		if err != nil {
			t.Fatal(err)
		}
		l, err := r.Listen(0o600, -1)
		if err != nil {
			t.Fatal(err)
		}
		if !connects(path) {
			t.Error("nobody listens")
		}
		_ = l.Close()
		r.Close()
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	}
}

// TestForeignSocket: what is not ours, or is alive, stays as it is, and so does what
// comes between reserving and listening.
func TestForeignSocket(t *testing.T) {
	dir := t.TempDir()
	alive := filepath.Join(dir, "alive")
	other, err := net.Listen("unix", alive)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	refused(t, alive, "somebody listens there")
	if !connects(alive) {
		t.Error("the living socket is gone")
	}
	file, folder, link := filepath.Join(dir, "file"), filepath.Join(dir, "folder"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("precious"), 0o600), os.Mkdir(folder, 0o700), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, folder, link} {
		refused(t, path, "something else is there")
	}
	late := filepath.Join(dir, "late")
	r := reserve(t, late)
	if err := os.WriteFile(late, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := r.Listen(0o600, -1); err == nil {
		_ = l.Close()
		t.Error("listened in place of a file")
	}
	r.Close()
	for _, path := range []string{file, link, late} {
		if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	refused(t, filepath.Join(dir, "none", "s"), "lock file")
	refused(t, filepath.Join(dir, strings.Repeat("x", SocketPathMax)), "bytes")
	refused(t, "", "0 bytes")
	if err := os.Symlink(file, filepath.Join(dir, "trap.lock")); err != nil {
		t.Fatal(err)
	}
	refused(t, filepath.Join(dir, "trap"), "lock file")
}

// TestSecondDaemon: from the reservation to its end a second one is refused and told
// who has the path, whether somebody listens already, still or not.
func TestSecondDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	holder := fmt.Sprintf("another daemon holds it, pid %d", os.Getpid())
	r := reserve(t, path)
	refused(t, path, holder) // starting
	l := listen(t, r, 0o600, -1)
	refused(t, path, holder) // serving
	if !connects(path) {
		t.Error("the first was harmed")
	}
	r.Unlisten()
	_ = l.Close()
	refused(t, path, holder) // stopping
	r.Close()
	reserve(t, path)
}

// TestSocketPermissions: mode and group are as asked, and never laxer before.
func TestSocketPermissions(t *testing.T) {
	for _, mode := range []os.FileMode{0o600, 0o660, 0o666, 0o000} {
		path := filepath.Join(t.TempDir(), "s")
		group := -1
		if os.Geteuid() == 0 {
			group = 12345
		}
		listen(t, reserve(t, path), mode, group)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode || group >= 0 && int(info.Sys().(*syscall.Stat_t).Gid) != group {
			t.Errorf("mode %v, %+v; want %v, group %d", info.Mode(), info.Sys(), mode, group)
		}
		lock, err := os.Stat(path + ".lock")
		if err != nil || lock.Mode().Perm() != 0o600 {
			t.Errorf("lock file: %v, %v", lock, err)
		}
	}
	if os.Geteuid() != 0 {
		path := filepath.Join(t.TempDir(), "s")
		if _, err := reserve(t, path).Listen(0o600, 0); err == nil {
			t.Error("gave the socket to a group without the right to")
		}
		if _, err := os.Lstat(path + newSuffix); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("something is left: %v", err)
		}
	}
}

// TestAnothersSocketStays: a daemon whose socket and lock somebody has removed does not
// remove, at its end, those that another has made since.
func TestAnothersSocketStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Reserve(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := first.Listen(0o600, -1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".lock"} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	second, err := Reserve(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := second.Listen(0o600, -1)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Close()
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the second daemon's socket is gone: %v", err)
	}
	_ = b.Close()
	second.Close()
	if _, err := os.Lstat(path); err == nil {
		t.Error("the second daemon left its socket")
	}
}
