package rdma

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	fabricsim "github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/cluster/transport/sim"
	"github.com/spillway-kv/spillway/engine/offheap"
)

func gid(index int, t fabric.GIDType, address string) fabric.GID {
	return fabric.GID{Index: index, Type: t, Address: netip.MustParseAddr(address)}
}

// TestChooseGID: the address that people would take.
func TestChooseGID(t *testing.T) {
	v1, local := gid(0, fabric.RoCEv1, "fe80::1"), gid(1, fabric.RoCEv2, "fe80::1")
	six, four, vlan := gid(2, fabric.RoCEv2, "2001:db8::1"), gid(3, fabric.RoCEv2, "::ffff:10.0.0.1"), gid(4, fabric.RoCEv2, "::ffff:10.1.0.1")
	band := gid(0, fabric.InfiniBand, "fe80::2")
	for _, c := range []struct {
		ethernet bool
		gids     []fabric.GID
		index    int
		want     int // -1: none
	}{
		{true, []fabric.GID{v1, local, six, four, vlan}, 0, 3},
		{true, []fabric.GID{v1, local, six}, 0, 2},
		{true, []fabric.GID{v1, local}, 0, 1},
		{true, []fabric.GID{v1}, 0, -1},
		{true, nil, 0, -1},
		{true, []fabric.GID{v1, local, six, four, vlan}, 4, 4},
		{true, []fabric.GID{v1, local}, 4, -1},
		{true, []fabric.GID{local, gid(5, fabric.RoCEv1, "::ffff:10.0.0.1")}, 5, -1},
		{false, []fabric.GID{band}, 0, 0},
		{false, []fabric.GID{band}, 7, 0},
		{false, nil, 0, -1},
	} {
		got, err := chooseGID(&fabric.Port{Ethernet: c.ethernet, GIDs: c.gids}, c.index)
		if (err != nil) != (c.want < 0) || err == nil && got.Index != c.want || err != nil && !errors.Is(err, fabric.ErrNone) {
			t.Errorf("of %v, index %d: %v, %v", c.gids, c.index, got, err)
		}
	}
}

// TestChoose: ports by name, and without; those of no use are named with the reason.
func TestChoose(t *testing.T) {
	ports := fabricsim.RoCE(1, 10)
	ports[1].Active, ports[1].State = false, "down"
	ports[2].GIDs = nil
	ports[3].Limits.ReceivesMax = 20
	names := func(chosen []Choice) (s string) {
		for _, c := range chosen {
			s += c.Port.Device[3:]
		}
		return s
	}
	for _, c := range []struct {
		names []string
		want  string
		left  int
		err   error
	}{
		{nil, "0456789", 3, nil},
		{[]string{"sim7", "sim4:1", "sim7:1"}, "74", 0, nil},
		{[]string{"sim1", "sim0"}, "0", 1, nil},
		{[]string{"sim1"}, "", 1, fabric.ErrNone},
		{[]string{"sim3"}, "", 1, fabric.ErrUnsupported},
		{[]string{"sim0", "mlx5_0"}, "", 0, ErrPort},
		{[]string{"sim0:2"}, "", 0, ErrPort},
	} {
		chosen, left, err := Choose(ports, c.names, 0)
		if names(chosen) != c.want || len(left) != c.left || !errors.Is(err, c.err) {
			t.Errorf("%v: %q, left %v, %v", c.names, names(chosen), left, err)
		}
		if c.err == ErrPort && (!strings.Contains(err.Error(), "sim9:1") || !strings.Contains(err.Error(), c.names[len(c.names)-1])) {
			t.Errorf("%v: %v", c.names, err)
		}
	}
	if _, _, err := Choose(nil, nil, 0); !errors.Is(err, fabric.ErrNone) {
		t.Error(err)
	}
	many := fabricsim.RoCE(1, railsMax+2)
	if chosen, left, err := Choose(many, nil, 0); len(chosen) != railsMax || len(left) != 2 || err != nil {
		t.Errorf("%d ports, left %v, %v", len(chosen), left, err)
	}
}

// TestNewFails: without RDMA there is an error that says why, and the control is as it was.
func TestNewFails(t *testing.T) {
	network, devices := sim.New(sim.Config{}), fabricsim.New(fabricsim.Config{})
	defer network.Close()
	defer devices.Close()
	control, err := network.Node("a")
	must(t, err)
	defer control.Close()
	none, err := devices.Machine("none", fabricsim.MachineConfig{})
	must(t, err)
	small, err := devices.Machine("small", fabricsim.MachineConfig{Ports: fabricsim.RoCE(1, 2), MemoryLockBytes: 8 << 20})
	must(t, err)
	for _, c := range []struct {
		o    Options
		want error
	}{
		{Options{Control: control}, ErrOptions},
		{Options{Control: control, Fabric: none}, fabric.ErrNone},
		{Options{Control: control, Fabric: small, Ports: []string{"no"}}, ErrPort},
		{Options{Control: control, Fabric: small}, fabric.ErrMemoryLock},
		{Options{Control: control, Fabric: small, LandingBytes: 3 << 20}, fabric.ErrMemoryLock},
	} {
		if n, err := New(c.o); !errors.Is(err, c.want) || n != nil {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	n, err := New(Options{Control: control, Fabric: small, LandingBytes: 2 << 20})
	must(t, err)
	if _, err := network.Node("a"); err == nil {
		t.Error("the control is closed")
	}
	must(t, n.Close())
	must(t, n.Close())
	again, err := network.Node("a") // which Close has closed
	must(t, err)
	must(t, again.Close())
}

// TestRegions: what is registered is found, piece by piece, for as long as it is.
func TestRegions(t *testing.T) {
	network, devices := sim.New(sim.Config{}), fabricsim.New(fabricsim.Config{})
	defer network.Close()
	defer devices.Close()
	control, err := network.Node("a")
	must(t, err)
	m, err := devices.Machine("a", fabricsim.MachineConfig{Ports: fabricsim.RoCE(1, 3)})
	must(t, err)
	n, err := New(Options{Control: control, Fabric: m, LandingBytes: landingUnitBytes})
	must(t, err)
	defer n.Close()
	a, err := offheap.Make[byte](12 << 10)
	must(t, err)
	defer a.Free()
	mem := a.Slice()
	first, err := n.RegisterMemory(mem[4<<10:8<<10], transport.Destination)
	must(t, err)
	second, err := n.RegisterMemory(mem[8<<10:12<<10], transport.Source|transport.Destination)
	must(t, err)
	list := n.regions.list()
	for _, c := range []struct {
		from, to int
		want     bool
		pieces   int
	}{{4 << 10, 8 << 10, true, 1}, {5000, 5001, true, 1}, {5000, 9000, true, 2}, {5000, 5000, true, 0}, {4095, 5000, false, 0}, {0, 10, false, 0}, {8 << 10, 12 << 10, true, 1}} {
		pieces := [][]byte{nil, mem[c.from:c.to]}
		if got := list.landable(pieces); got != c.want {
			t.Errorf("[%d:%d] is landable: %v", c.from, c.to, got)
		}
		if !c.want {
			continue
		}
		for port := range 3 {
			at := addressOf(mem) + uint64(c.from)
			to := list.targets(nil, port, pieces)
			if len(to) != c.pieces {
				t.Errorf("[%d:%d] has targets %+v", c.from, c.to, to)
			}
			for _, p := range to {
				if r, _ := list.find(mem[at-addressOf(mem):]); p.address != at || p.key != r.at[port].RemoteKey() {
					t.Errorf("[%d:%d] has target %+v", c.from, c.to, p)
				}
				at += uint64(p.bytes)
			}
			if at != addressOf(mem)+uint64(c.to) {
				t.Errorf("[%d:%d] ends at %d", c.from, c.to, at-addressOf(mem))
			}
		}
	}
	if _, _, got := n.regions.source(2, mem[5000:9000]); got != 8<<10-5000 {
		t.Errorf("%d bytes from 5000 on are to be sent from", got)
	}
	first()
	first()
	if list := n.regions.list(); list.landable([][]byte{mem[5000:5001]}) || !list.landable([][]byte{mem[9000:9001]}) {
		t.Error("a release has taken the wrong memory")
	}
	must(t, n.Close())
	second() // after Close it does nothing
	if _, err := n.RegisterMemory(mem, transport.Source); err == nil {
		t.Error("memory is registered with a transport that is closed")
	}
}
