package doctor

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
	"github.com/spillway-kv/spillway/engine/machine"
)

// rdmaMachine is one of testdata whose library tells of its ports, with this MTU.
func rdmaMachine(t *testing.T, name string, mtu int) Machine {
	m := healthy(fakeTree(t, name, "/dir"))
	m.VerbsBuilt = true
	m.MayUse = func(string) error { return nil }
	m.Networks = func(name string) []netip.Prefix {
		of := map[string]string{"eth2": "::ffff:10.0.0.0/120", "eth3": "::ffff:10.0.1.0/120"}
		if m.Exists("sys/class/infiniband/mlx5_3") {
			of["eth3"] = of["eth2"]
		}
		if of[name] == "" {
			return nil
		}
		return []netip.Prefix{netip.MustParsePrefix(of[name])}
	}
	m.Verbs = func() ([]fabric.Port, error) {
		ports := m.rdmaPorts()
		for i := range ports {
			ports[i].MTUBytes = mtu
		}
		return ports, nil
	}
	return m
}

// TestRDMAMachines compares the findings about RDMA on whole machines with golden files,
// where the pool is to use it; where nobody means to, nothing is amiss.
func TestRDMAMachines(t *testing.T) {
	for name, c := range map[string]struct {
		mtu    int
		change func(*Machine)
		plan   RDMAPlan
	}{
		"rdma-roce":       {4096, func(*Machine) {}, RDMAPlan{RegisterBytes: 40 << 30, TrafficClass: 104}},
		"rdma-poor":       {1024, func(*Machine) {}, RDMAPlan{RegisterBytes: 192 << 20}},
		"rdma-infiniband": {4096, func(*Machine) {}, RDMAPlan{RegisterBytes: 192 << 20, Ports: []string{"mlx5_0", "mlx5_1:1"}}},
		"rdma-container": {4096, func(m *Machine) {
			m.MayUse = func(path string) error { return fmt.Errorf("%s: %w", path, fs.ErrNotExist) }
			m.Verbs = func() ([]fabric.Port, error) { return nil, fmt.Errorf("%w: no device can be opened", fabric.ErrNone) }
		}, RDMAPlan{RegisterBytes: 192 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			m := rdmaMachine(t, name, c.mtu)
			c.change(&m)
			facts := m.Gather(t.TempDir())
			var b strings.Builder
			for _, plan := range []*RDMAPlan{&c.plan, nil} {
				for _, check := range examineRDMA(&facts, Plan{RDMA: plan}) {
					line, err := json.Marshal(check)
					if err != nil {
						t.Fatal(err)
					}
					if plan != nil {
						b.WriteString(string(line) + "\n")
					}
					if (check.Level == OK) != (check.Remedy == "") || check.Found == "" || check.Means == "" || plan == nil && check.Level != OK {
						t.Errorf("odd: %+v", check)
					}
				}
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || b.String() != string(want) {
				t.Errorf("differs from %s (go test -update writes it anew), %v:\n%s", golden, err, b.String())
			}
		})
	}
}

// TestRDMAFindings changes one fact of the good machine at a time.
func TestRDMAFindings(t *testing.T) {
	m := rdmaMachine(t, "rdma-roce", 4096)
	for _, c := range []struct {
		name   string
		change func(f *Facts, p *RDMAPlan)
		check  string
		level  Level
		text   string
	}{
		{"as it is", func(*Facts, *RDMAPlan) {}, "RDMA", OK, "2 ports of 2 devices, through /usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0"},
		{"TLS", func(_ *Facts, p *RDMAPlan) { p.Refused = "data connections are encrypted" }, "RDMA security", Bad, "rdma_plain = true"},
		{"TLS, and the rest is said, too", func(_ *Facts, p *RDMAPlan) { p.Refused = "data connections are encrypted" }, "RDMA", OK, "2 ports of 2 devices"},
		{"not built", func(f *Facts, _ *RDMAPlan) { f.RDMA.Built = false }, "RDMA", Bad, "make build TAGS=verbs"},
		{"no library", func(f *Facts, _ *RDMAPlan) { f.RDMA.Library, f.RDMA.Err = "", fabric.ErrNone }, "RDMA", Bad, "ibverbs-providers"},
		{"no driver's library", func(f *Facts, _ *RDMAPlan) { f.RDMA.Err = fabric.ErrNone }, "RDMA", Bad, "ibv_devinfo"},
		{"nothing", func(f *Facts, _ *RDMAPlan) { f.RDMA = RDMAFacts{Built: true, Err: fabric.ErrNone} }, "RDMA", Bad, "--device /dev/infiniband"},
		{"no ports", func(f *Facts, _ *RDMAPlan) { f.RDMA.Ports = nil }, "RDMA port", Bad, "no device has a port"},
		{"no uverbs", func(f *Facts, _ *RDMAPlan) { f.RDMA.Devices[0].Verbs = "" }, "RDMA device", Bad, "modprobe ib_uverbs"},
		{"not given", func(f *Facts, _ *RDMAPlan) { f.RDMA.Devices[1].VerbsErr = fs.ErrNotExist }, "RDMA device", Bad, "--device /dev/infiniband/uverbs1"},
		{"not allowed", func(f *Facts, _ *RDMAPlan) { f.RDMA.Devices[1].VerbsErr = fs.ErrPermission }, "RDMA device", Bad, "chmod 666 /dev/infiniband/uverbs1"},
		{"far", func(f *Facts, _ *RDMAPlan) { f.CPUs = "32" }, "RDMA device", Warn, "numactl --cpunodebind=0"},
		{"partly near", func(f *Facts, _ *RDMAPlan) { f.CPUs = "31-32" }, "RDMA device", OK, "may use it"},
		{"one port only", func(_ *Facts, p *RDMAPlan) { p.Ports = []string{"mlx5_1:1"} }, "RDMA port", OK, "mlx5_1:1: RoCE"},
		{"GID index", func(_ *Facts, p *RDMAPlan) { p.Ports, p.GIDIndex = []string{"mlx5_0"}, 4 }, "RDMA port", OK, "4 RoCE v2 10.100.0.7 eth2.100 (chosen)"},
		{"an index of RoCE v1", func(_ *Facts, p *RDMAPlan) { p.Ports, p.GIDIndex = []string{"mlx5_0"}, 2 }, "RDMA port", Bad, "is of RoCE v1"},
		{"no such index", func(_ *Facts, p *RDMAPlan) { p.GIDIndex = 9 }, "RDMA port", Warn, "pool.rdma_gid_index"},
		{"down", func(f *Facts, _ *RDMAPlan) { f.RDMA.Ports[0].Active = false }, "RDMA port", Warn, "ip -br link"},
		{"MTU", func(f *Facts, _ *RDMAPlan) { f.RDMA.Ports[0].MTUBytes = 1024 }, "RDMA port", Warn, "dev eth2 mtu 9000"},
		{"little memory", func(f *Facts, _ *RDMAPlan) { f.LockedSoft = 79 << 30 }, "RDMA memory", Bad, "LimitMEMLOCK=infinity"},
		{"just enough memory", func(f *Facts, _ *RDMAPlan) { f.LockedSoft = 80 << 30 }, "RDMA memory", Warn, "clients' memory"},
		{"capable", func(f *Facts, _ *RDMAPlan) { f.LockedSoft, f.MayLock = 8<<20, true }, "RDMA memory", OK, "CAP_IPC_LOCK"},
		{"loss", func(f *Facts, _ *RDMAPlan) { f.RDMA.Devices[0].Counters["packet_seq_err"] = 100000 }, "RDMA loss", Warn, "ethtool -S eth2"},
		{"a little loss", func(f *Facts, _ *RDMAPlan) { f.RDMA.Devices[0].Counters["packet_seq_err"] = 88119 }, "RDMA loss", OK, "packet_seq_err 88119"},
		{"unready", func(f *Facts, _ *RDMAPlan) { f.RDMA.Devices[0].Counters["rnr_nak_retry_err"] = 1 }, "RDMA loss", Warn, "other programs that use mlx5_0"},
		{"no class", func(_ *Facts, p *RDMAPlan) { p.TrafficClass = 2 }, "RDMA class", Warn, "104 for DSCP 26"},
		{"strict, a network each", func(f *Facts, _ *RDMAPlan) { f.RDMA.ReverseOf["eth2"] = 1 }, "RDMA class", OK, "DSCP 26"},
		{"one network", func(f *Facts, _ *RDMAPlan) { oneNetwork(f) }, "RDMA network", OK, "eth2, eth3 are all in 10.0.0.0/16"},
		{"strict", func(f *Facts, _ *RDMAPlan) {
			oneNetwork(f)
			f.RDMA.ReverseOf["eth3"] = 1
		}, "RDMA network", Warn, "net.ipv4.conf.eth3.rp_filter=2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			facts, plan := m.Gather(t.TempDir()), RDMAPlan{RegisterBytes: 40 << 30, TrafficClass: 104}
			c.change(&facts, &plan)
			checks, found := examineRDMA(&facts, Plan{RDMA: &plan}), false
			for _, check := range checks {
				found = found || check.Name == c.check && check.Level == c.level && strings.Contains(check.Found+"\n"+check.Means+"\n"+check.Remedy, c.text)
				if check.Name == "RDMA network" && c.check != "RDMA network" {
					t.Errorf("not in one network: %+v", check)
				}
			}
			if !found {
				t.Errorf("nothing says %s %s %q: %+v", c.check, c.level, c.text, checks)
			}
		})
	}
}

// oneNetwork puts all ports into one.
func oneNetwork(f *Facts) {
	for i := range f.RDMA.Ports {
		for k := range f.RDMA.Ports[i].GIDs {
			f.RDMA.Ports[i].GIDs[k].Networks = []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/112")}
		}
	}
}

// TestRDMAHere looks at the machine that runs the test, with the real library where this
// build can use it.
func TestRDMAHere(t *testing.T) {
	facts := This().Gather(t.TempDir())
	r := &facts.RDMA
	if r.Built != verbs.Built || !verbs.Built && r.Err == nil || r.Err != nil && !strings.Contains(r.Err.Error(), fabric.ErrNone.Error()) {
		t.Errorf("%+v", r)
	}
	if devices := (machine.System{Root: "/"}).List(infiniband); len(devices) != len(r.Devices) {
		t.Errorf("%v are %+v", devices, r.Devices)
	}
	checks := examineRDMA(&facts, Plan{RDMA: &RDMAPlan{RegisterBytes: 1}})
	if len(checks) == 0 || checks[0].Name != "RDMA" || (checks[0].Level == OK) != (r.Err == nil) {
		t.Errorf("%+v", checks)
	}
	t.Logf("%+v", checks)
}

// TestNetworks: those of this machine are said as addresses of ports are, in 128 bits.
func TestNetworks(t *testing.T) {
	lo := networksOf("lo")
	for _, n := range lo {
		if n.Addr().BitLen() != 128 || n != n.Masked() {
			t.Errorf("%v", n)
		}
	}
	if len(lo) > 0 && shown(lo[0]) != "127.0.0.0/8" && shown(lo[0]) != "::1/128" {
		t.Errorf("%v", lo)
	}
	if networksOf("no such interface") != nil {
		t.Error("an interface out of nothing")
	}
}
