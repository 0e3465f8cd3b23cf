//go:build verbs && linux && cgo

package verbs

import (
	"debug/elf"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// TestNoLibrary: a machine without the library, or with something else of its name, has no
// RDMA, and says why.
func TestNoLibrary(t *testing.T) {
	for _, c := range []struct{ library, says string }{
		{"libspillway-none.so.1", "install libibverbs1"},
		{"libc.so.6", "has no function ibv_"},
	} {
		m := newFabric(c.library, t.TempDir())
		ports, err := m.Ports()
		if len(ports) != 0 || !errors.Is(err, fabric.ErrNone) || !strings.Contains(err.Error(), c.library) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", c.library, ports, err)
		}
		if _, err := m.Open(fabric.Port{Device: "mlx5_0", Number: 1}, fabric.GID{}); !errors.Is(err, fabric.ErrNone) {
			t.Errorf("%s: Open: %v", c.library, err)
		}
	}
}

// TestUntruths: with a variable that has the library call destroyed what may not be there is no
// RDMA.
func TestUntruths(t *testing.T) {
	for _, name := range []string{"RDMAV_ALLOW_DISASSOC_DESTROY", "MLX4_DEVICE_FATAL_CLEANUP", "MLX5_DEVICE_FATAL_CLEANUP"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1")
			m := newFabric("libc.so.6", t.TempDir())
			if _, err := m.Ports(); !errors.Is(err, fabric.ErrNone) || !strings.Contains(err.Error(), name+" is set") || m.library != nil {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestNotLinked: a program with the tag starts where the library is missing.
func TestNotLinked(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libraries {
		if strings.Contains(l, "verbs") || strings.Contains(l, "rdma") || strings.Contains(l, "mlx") {
			t.Errorf("linked with %s", l)
		}
	}
	if !slices.Contains(libraries, "libc.so.6") {
		t.Errorf("libraries %v, want libc.so.6", libraries)
	}
}

// tree makes files, and gives their root as sysfs would have it.
func tree(t *testing.T, files map[string]string) sysfsDir {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return sysfsDir(root)
}

func TestSysfs(t *testing.T) {
	zero := "0000:0000:0000:0000:0000:0000:0000:0000\n"
	d := tree(t, map[string]string{
		"mlx5_0/device/numa_node":             "1\n",
		"mlx5_0/ports/1/rate":                 "100 Gb/sec (4X EDR)\n",
		"mlx5_0/ports/1/link_layer":           "Ethernet\n",
		"mlx5_0/ports/1/gids/0":               "fe80:0000:0000:0000:0202:c9ff:fe00:0001\n",
		"mlx5_0/ports/1/gids/2":               zero,
		"mlx5_0/ports/1/gids/3":               "0000:0000:0000:0000:0000:ffff:0a09:0001\n",
		"mlx5_0/ports/1/gids/10":              "0000:0000:0000:0000:0000:ffff:0a09:0002\n",
		"mlx5_0/ports/1/gids/11":              "0000:0000:0000:0000:0000:ffff:0a09:0003\n",
		"mlx5_0/ports/1/gid_attrs/types/0":    "IB/RoCE v1\n",
		"mlx5_0/ports/1/gid_attrs/types/3":    "RoCE v2\n",
		"mlx5_0/ports/1/gid_attrs/types/10":   "RoCE v2\n",
		"mlx5_0/ports/1/gid_attrs/ndevs/0":    "no-such-net0\n",
		"mlx5_0/ports/1/gid_attrs/ndevs/3":    "lo\n",
		"mlx5_0/ports/1/gid_attrs/ndevs/10":   "no-such-net0.7\n",
		"mlx5_1/ports/1/rate":                 "2.5 Gb/sec (1X SDR)\n",
		"mlx5_1/ports/1/link_layer":           "InfiniBand\n",
		"mlx5_1/ports/1/gids/0":               "fe80:0000:0000:0000:0202:c9ff:fe00:0002\n",
		"mlx5_1/ports/1/gid_attrs/types/0":    "IB/RoCE v1\n",
		"mlx5_2/ports/1/rate":                 "fast\n",
		"mlx5_2/device/numa_node":             "?\n",
		"mlx5_2/ports/1/gids/nonsense":        "x\n",
		"mlx5_2/ports/1/gids/1":               "x\n",
		"mlx5_2/ports/1/gid_attrs/types/junk": "RoCE v2\n",
	})
	if n, r := d.node("mlx5_0"), d.rateGbps("mlx5_0", 1); n != 1 || r != 100 {
		t.Errorf("node %d, rate %v", n, r)
	}
	if n, r := d.node("mlx5_1"), d.rateGbps("mlx5_1", 1); n != -1 || r != 2.5 {
		t.Errorf("node %d, rate %v", n, r)
	}
	if n, r := d.node("mlx5_2"), d.rateGbps("mlx5_2", 1); n != -1 || r != 0 {
		t.Errorf("node %d, rate %v", n, r)
	}
	gids, err := d.gids("mlx5_0", 1)
	if err != nil {
		t.Fatal(err)
	}
	type short struct {
		index   int
		kind    fabric.GIDType
		address string
		network string
	}
	var got []short
	for _, g := range gids[1] {
		got = append(got, short{g.Index, g.Type, g.Address.String(), g.Interface})
		if !g.Address.Is6() {
			t.Errorf("%v has not 16 bytes", g.Address)
		}
	}
	want := []short{
		{0, fabric.RoCEv1, "fe80::202:c9ff:fe00:1", "no-such-net0"},
		{3, fabric.RoCEv2, "::ffff:10.9.0.1", "lo"},
		{10, fabric.RoCEv2, "::ffff:10.9.0.2", "no-such-net0.7"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("addresses %v, want %v", got, want)
	}
	gids, err = d.gids("mlx5_1", 1)
	if err != nil || len(gids[1]) != 1 || gids[1][0].Type != fabric.InfiniBand || gids[1][0].Interface != "" ||
		!slices.Equal(gids[1][0].Networks, []netip.Prefix{netip.MustParsePrefix("fe80::/64")}) {
		t.Errorf("InfiniBand: %+v, %v", gids, err)
	}
	if gids, err := d.gids("mlx5_2", 1); err != nil || len(gids[1]) != 0 {
		t.Errorf("nonsense: %+v, %v", gids, err)
	}
	if _, err := d.gids("mlx5_9", 1); err == nil {
		t.Errorf("no such device: no error")
	}
}

func TestNetworks(t *testing.T) {
	network := func(s string) net.Addr {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		return &net.IPNet{IP: ip, Mask: n.Mask}
	}
	got := networksOf([]net.Addr{network("10.9.3.1/16"), network("10.9.4.1/16"), network("fe80::1/64"), network("169.254.1.1/16"),
		network("2001:db8::5/48"), network("192.168.1.9/32"), &net.IPAddr{IP: net.IPv4(1, 2, 3, 4)}})
	want := []netip.Prefix{
		netip.PrefixFrom(netip.MustParseAddr("::ffff:10.9.0.0"), 112),
		netip.MustParsePrefix("2001:db8::/48"),
		netip.PrefixFrom(netip.MustParseAddr("::ffff:192.168.1.9"), 128),
	}
	if !slices.Equal(got, want) {
		t.Errorf("networks %v, want %v", got, want)
	}
	if !got[0].Contains(netip.MustParseAddr("::ffff:10.9.77.1")) || got[0].Contains(netip.MustParseAddr("::ffff:10.8.77.1")) {
		t.Errorf("%v holds the wrong addresses", got[0])
	}
}

func TestWhy(t *testing.T) {
	none := tree(t, nil)
	some := tree(t, map[string]string{"mlx5_0/x": "", "mlx5_1/x": ""})
	file := filepath.Join(t.TempDir(), "uverbs0")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{none.whyNoList(errno(38)), "the kernel has no RDMA"},
		{none.whyNoList(errno(12)), "cannot list the devices: cannot allocate memory"},
		{none.whyNoDevice(), "no device"},
		{sysfsDir(string(none) + "/none").whyNoDevice(), "no device"},
		{some.whyNoDevice(), "the kernel has mlx5_0, mlx5_1, but"},
		{whyNotOpened(file, errno(5)), file + " cannot be used: input/output error"},
		{whyNotOpened(file+"x", errno(5)), "there is no " + file + "x: load ib_uverbs"},
		{remedy(file), " (mode 0600): a udev rule"},
		{remedy("/nonexistent"), ": a udev rule"},
		{refused("register 5 bytes", errno(14)).Error(), "register 5 bytes: bad address"},
	} {
		if !strings.Contains(c.text, c.want) {
			t.Errorf("%q, want %q in it", c.text, c.want)
		}
	}
}

func TestResultOf(t *testing.T) {
	for status, want := range map[int]fabric.Result{-3: fabric.OtherFault, 0: fabric.OK, 12: fabric.NoAnswer, 22: fabric.OtherFault, 1000: fabric.OtherFault} {
		if got := resultOf(status); got != want {
			t.Errorf("status %d: %v, want %v", status, got, want)
		}
	}
}

// TestGlobal: when packets need a global header.
func TestGlobal(t *testing.T) {
	at := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	for _, c := range []struct {
		local, remote string
		ethernet, grh bool
		want          bool
	}{
		{"::ffff:10.0.0.1", "::ffff:10.0.0.2", true, false, true},
		{"fe80::1", "fe80::2", false, false, false},
		{"fe80::1", "fe80::2", false, true, true},
		{"fe80:0:0:1::1", "fe80:0:0:2::2", false, false, true},
	} {
		q := &pair{d: &device{grh: c.grh}, local: fabric.Endpoint{GID: at(c.local), Ethernet: c.ethernet}}
		if got := q.global(fabric.Endpoint{GID: at(c.remote), Ethernet: c.ethernet}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestSameGIDs: the kernel's files say the same of the addresses as the library.
func TestSameGIDs(t *testing.T) {
	m := newFabric("libibverbs.so.1", "/sys/class/infiniband")
	ports, err := m.Ports()
	if errors.Is(err, fabric.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ports {
		gids, err := m.sys.gids(p.Device, int(p.Number))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(p.GIDs, gids[p.Number], func(a, b fabric.GID) bool {
			return a.Index == b.Index && a.Type == b.Type && a.Address == b.Address && a.Interface == b.Interface && slices.Equal(a.Networks, b.Networks)
		}) {
			t.Errorf("%s: library %+v, files %+v", p.Name(), p.GIDs, gids[p.Number])
		}
		t.Logf("%+v", p)
	}
}
