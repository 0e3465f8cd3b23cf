//go:build verbs && linux && cgo

package verbs_test

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
)

// TestPorts: what is said of the two ports.
func TestPorts(t *testing.T) {
	_, two := ports(t)
	for _, p := range two {
		if !p.Active || p.State != "active" || p.MTUBytes < 256 || p.Limits.MessageBytesMax == 0 || p.Limits.InlineBytesMax < 64 {
			t.Errorf("port %+v", p)
		}
		g := address(t, p)
		if p.Ethernet && (g.Interface == "" || !slices.ContainsFunc(g.Networks, func(n netip.Prefix) bool { return n.Contains(g.Address) })) {
			t.Errorf("%s: address %v of interface %q is in none of %v", p.Name(), g.Address, g.Interface, g.Networks)
		}
	}
	if two[0].Ethernet && !slices.ContainsFunc(address(t, two[0]).Networks, func(n netip.Prefix) bool { return n.Contains(address(t, two[1]).Address) }) {
		t.Errorf("the ports are in different networks: %v, %v", two[0].GIDs, two[1].GIDs)
	}
}

// TestOpenWrong: what has changed since it was listed is not opened.
func TestOpenWrong(t *testing.T) {
	f, two := ports(t)
	right := address(t, two[0])
	moved, far, kind, missing := right, right, right, two[0]
	kind.Type = fabric.InfiniBand - right.Type + fabric.RoCEv2 // the other one of the two
	moved.Address = netip.MustParseAddr("::ffff:192.0.2.77")
	far.Index = 256
	missing.Device = "none0"
	for _, c := range []struct {
		port fabric.Port
		gid  fabric.GID
	}{{two[0], moved}, {two[0], far}, {two[0], kind}, {missing, right}} {
		if d, err := f.Open(c.port, c.gid); err == nil {
			t.Errorf("Open of %s with %v: no error", c.port.Name(), c.gid)
			d.Close()
		}
	}
}

// TestCloseInUse: a device with something left is not closed, and goes on working.
func TestCloseInUse(t *testing.T) {
	f, two := ports(t)
	d, err := f.Open(two[0], address(t, two[0]))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	r, err := d.Register(mem, fabric.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err == nil {
		t.Fatal("closed, with a region left")
	}
	q, err := d.NewQueuePair(fabric.QueueOptions{Sends: 1, Receives: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Deregister(), q.Destroy(), d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Register(mem, 0); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("Register afterwards: %v", err)
	}
	if _, err := d.NewQueuePair(fabric.QueueOptions{Sends: 1, Receives: 1}); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("NewQueuePair afterwards: %v", err)
	}
	if err := d.Close(); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("Close again: %v", err)
	}
	if err := r.Deregister(); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("Deregister again: %v", err)
	}
}

// asNobody runs one test of this binary as another user, who has no rights.
func asNobody(t *testing.T, test string) string {
	t.Helper()
	c := exec.Command("/proc/self/exe", "-test.run=^"+test+"$", "-test.v")
	c.Env = append(os.Environ(), asNobodyVariable+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("%s as nobody: %v\n%s", test, err, out.String())
	}
	return out.String()
}

const asNobodyVariable = "SPILLWAY_TEST_AS_NOBODY"

// TestMemoryLimit: without the right to lock memory the error says what to do.
func TestMemoryLimit(t *testing.T) {
	f, two := ports(t)
	if os.Getenv(asNobodyVariable) == "" {
		if os.Geteuid() != 0 {
			t.Skip("runs itself as another user: needs root")
		}
		t.Log(asNobody(t, "TestMemoryLimit"))
		return
	}
	const limit = 4 << 20
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	d, err := f.Open(two[0], address(t, two[0]))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(-1, 0, 2*limit, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	_, err = d.Register(mem, fabric.RemoteWrite)
	if !errors.Is(err, fabric.ErrMemoryLock) || !strings.Contains(err.Error(), "4194304 bytes") || !strings.Contains(err.Error(), "register 8388608 bytes") ||
		!strings.Contains(err.Error(), "LimitMEMLOCK=infinity") {
		t.Errorf("Register of twice the limit: %v", err)
	}
	t.Log(err)
	r, err := d.Register(mem[:limit/4], fabric.RemoteWrite)
	if err != nil {
		t.Fatalf("Register of a quarter of the limit: %v", err)
	}
	if err := errors.Join(r.Deregister(), d.Close()); err != nil {
		t.Error(err)
	}
}

// TestPermission: device files that are not ours are told with the way out.
func TestPermission(t *testing.T) {
	files, err := os.ReadDir("/dev/infiniband")
	if _, two := ports(t); err != nil || two[0].Device == "" {
		t.Fatal(err)
	}
	if os.Getenv("SPILLWAY_VM") == "" || os.Geteuid() != 0 {
		t.Skip("takes rights of device files away: only for a test machine")
	}
	for _, f := range files {
		name := "/dev/infiniband/" + f.Name()
		was, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(name, was.Mode().Perm())
	}
	out := asNobody(t, "TestNoDevice")
	if !strings.Contains(out, "permission denied on /dev/infiniband/uverbs") || !strings.Contains(out, "udev rule") {
		t.Errorf("as nobody:\n%s", out)
	}
	t.Log(out)
}

// TestPortDown: an open device's port says when its link is down, and up again.
func TestPortDown(t *testing.T) {
	f, two := ports(t)
	if os.Getenv("SPILLWAY_VM") == "" {
		t.Skip("takes a link down: only for the test machine")
	}
	d, err := f.Open(two[0], address(t, two[0]))
	if err != nil {
		t.Fatal(err)
	}
	run := func(command ...string) {
		t.Helper()
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", command, err, out)
		}
	}
	become := func(active bool) {
		t.Helper()
		for range 3000 {
			if d.Port().Active == active {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("the port is %q, want active %v", d.Port().State, active)
	}
	become(true)
	network := address(t, two[0]).Interface
	run("/usr/bin/ip", "link", "set", network, "down")
	become(false)
	if all, err := verbs.New().Ports(); err != nil || !slices.ContainsFunc(all, func(p fabric.Port) bool { return p.Name() == two[0].Name() && !p.Active }) {
		t.Errorf("Ports: %+v, %v, want it listed as not active", all, err)
	}
	run("/usr/bin/ip", "link", "set", network, "up")
	become(true)
	run("/bin/sh", "/setup.sh", "links")
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
