package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/tiering/memory"
)

const smallest = "[[store]]\ndir = \"/kv\"\n"

func parse(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse("f.toml", []byte(text))
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return f
}

// TestRefused: what is wrong is said, with its line where one line is at fault.
func TestRefused(t *testing.T) {
	many := strings.Repeat("x", 200)
	for _, c := range []struct {
		text, say string
	}{
		{"", "no store"},
		{"[[store]]\n", "no directory given"},
		{smallest + "[socket]\npaht = \"/s\"\n", "f.toml:4: unknown key socket.paht; known here are path, mode"},
		{smallest + "colour = 1\n", "f.toml:3: unknown key store.colour; known here are dir, capacity"},
		{"nonsense = 1\n" + smallest, "f.toml:1: unknown key nonsense; known here are socket, store, limits"},
		{smallest + "[extra]\na = 1\n", "unknown key extra"},
		{smallest + "capacity = \"1 parsec\"\n", `f.toml:3: store.capacity: "1 parsec" has the unknown suffix`},
		{smallest + "capacity = true\n", `"true" is not a size`},
		{smallest + "capacity = -1\n", "negative"},
		{smallest + "rings = 0\n", "rings of [[store]] number 1 is 0"},
		{smallest + "rings = 17\n", "[[store]] number 1 (/kv)"},
		{smallest + "queue_depth = \"many\"\n", "f.toml:3: "},
		{smallest + "ioengine = \"libaio\"\n", "libaio"},
		{smallest + "policy = \"fifo\"\n", "there are hazard, lru, s3fifo"},
		{smallest + "lease_share = 1.5\n", "1.5"},
		{smallest + "sync_interval = \"1\"\n", `f.toml:3: store.sync_interval: "1" is not a time`},
		{smallest + "sync_interval = 1\n", `"1" is not a time`},
		{smallest + smallest, "two stores in /kv"},
		{smallest + "[socket]\nmode = \"0999\"\n", "f.toml:4: "},
		{smallest + "[socket]\nmode = \"1777\"\n", "permissions"},
		{smallest + "[socket]\npath = \"" + many + "\"\n", "socket.path has 200 bytes"},
		{smallest + "[socket]\npath = \"\"\n", "socket.path has 0 bytes"},
		{smallest + "[socket]\ngroup = \"nobody-has-this\"\n", "socket.group"},
		{smallest + "[socket]\nallow_uids = [-1]\n", "f.toml:4: "},
		{smallest + "[socket]\ntoken = \"a\"\ntoken_file = \"b\"\n", "both"},
		{smallest + "[socket]\ntoken_file = \"/does/not/exist\"\n", "/does/not/exist"},
		{smallest + "[socket]\ntoken = \" a\"\n", "space"},
		{smallest + "[limits]\nconnections = 0\n", "limits.connections is 0"},
		{smallest + "[limits]\nconnections = 70000\n", "connections is 70000"},
		{smallest + "[limits]\npatience = \"0s\"\n", "limits.patience is 0"},
		{smallest + "[limits]\nstop_time = \"-1s\"\n", "negative"},
		{smallest + "[puts]\nqueue_bytes = \"1KiB\"\n", "put queue bytes is 1024"},
		{smallest + "[memory]\ndram_bytes = \"1MiB\"\n", "memory.dram_bytes: bad options of the memory tier: 1048576 bytes"},
		{smallest + "[memory]\nmode = \"both\"\n", "memory.mode is \"both\""},
		{smallest + "[memory]\nnuma = \"first\"\n", "memory.numa is \"first\""},
		{smallest + "[[namespace]]\n", "no name"},
		{smallest + "[[namespace]]\nname = \"a\"\n[[namespace]]\nname = \"a\"\n", "that of another"},
		{smallest + "[[namespace]]\nname = \"a\"\nshare = 1001\n", "share is 1001"},
		{smallest + "[[namespace]]\nname = \"a\"\nshare = -1\n", "share is -1"},
		{smallest + "[[namespace]]\nname = \"a\"\nquota = \"0\"\n", "quota"},
		{smallest + "[[namespace]]\nname = \"a\"\nquota = \"0 MiB\"\n", "f.toml:5: "},
		{smallest + "[gate]\nbudget = \"2h\"\n", "gate.budget"},
		{smallest + "[gate]\ncompute_per_token = \"-2s\"\n", "negative"},
		{smallest + "[gate]\nmodel = \"Llama-3.1-8\"\ngpu = \"H200\"\n", "near are Llama-3.1-8B"},
		{smallest + "[gate]\nmodel = \"Llama-3.1-8B\"\n", "without a GPU"},
		{smallest + "[gate]\nmodel = \"Llama-3.1-8B\"\ngpu = \"H20O\"\n", "near are H20"},
		{smallest + "[gate]\nmodel = \"Llama-3.1-8B\"\ngpu = \"H200\"\ncompute_per_token = \"27us\"\n", "give one of them"},
		{smallest + "[gate]\ntp = 0\n", "gate.tp is 0"},
		{smallest + "[gate]\ntp = 5000\n", "TP 5000"},
		{smallest + "[admin]\naddress = \"localhost\"\n", "want a host and a port"},
		{smallest + "[admin]\naddress = \":9470\"\n", "other machines reach it"},
		{smallest + "[admin]\naddress = \"0.0.0.0:9470\"\n", "admin.allow_remote"},
		{smallest + "[admin]\naddress = \"[2001:db8::1]:9470\"\n", "admin.allow_remote"},
		{smallest + "[admin]\naddress = \"localhost.example.org:9470\"\n", "admin.allow_remote"},
		{smallest + "[admin]\naddress = \"127.0.0.1:http\"\n", "port"},
		{smallest + "[admin]\naddress = \"127.0.0.1:99999\"\n", "port"},
		{smallest + "[log]\nlevel = \"loud\"\n", "log.level"},
		{smallest + "[log]\nformat = \"xml\"\n", "log.format"},
		{"[[store]\n", "f.toml:1: "},
		{smallest + "dir = \"/again\"\n", "f.toml:3: "},
		{smallest + "[gate]\ngpu = \"abacus\"\n", "abacus"},
		{smallest + "[admission]\nadmit = \"third\"\n", "all or second"},
		{smallest + "[[namespace]]\nname = \"a\"\nadmit = \"third\"\n", "all or second"},
		{smallest + "[admission]\ndrive_writes_per_day = -1.0\n", "drive writes per day"},
		{smallest + "[admission]\ndrive_writes_per_day = nan\n", "drive writes per day"},
		{smallest + "lease_share = nan\n", "lease time"},
		{smallest + "policy = \"third\"\n", "hazard, lru, s3fifo"},
		{smallest + "[memory]\nprefetch = \"third\"\n", "model, window or none"},
		{smallest + "[memory]\nmode = \"third\"\n", "exclusive, inclusive or off"},
		{smallest + "[admission]\nwrite_burst = \"0s\"\n", "admission.write_burst is 0"},
		{smallest + "[admission]\nwear_burst = \"1ms\"\n", "1s to 24h"},
		{"\x00", "f.toml:1: "},
		{smallest + "[gate]\n# a comment\nbudget = 30\n[log]\nlevel = \"info\"\n", "f.toml:5: "},
		{smallest + "[gate]\nbudget = 30", "f.toml:4: "},
		{smallest + "[gate]\ngpu = \"H1000\"\n", "gate.gpu: no GPU"},
		{smallest + "[gate]\nmodel = \"Llama-9\"\ngpu = \"H100\"\n", "gate.model: no model"},
	} {
		f, err := Parse("f.toml", []byte(c.text))
		if err == nil {
			err = f.Check()
		}
		if err == nil || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q:\n%v\nwant an error that says %q", c.text, err, c.say)
		}
	}
}

// TestAccepted: every key can be set, and reaches what it is for.
func TestAccepted(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := parse(t, `
[socket]
path = "/run/s"
mode = "0600"
group = "4711"
allow_uids = [1, 2]
token_file = "`+secret+`"
[[store]]
dir = "/a"
capacity = "1.5GiB"
endurance = "600TB"
optional = true
policy = "s3fifo"
ioengine = "psync"
rings = 2
queue_depth = 64
scrub_rate = "10MB"
index_memory = "2GiB"
frame_memory = 134217728
sync_interval = "500ms"
lease_max = "2m"
lease_share = 0.5
lock_wait = "1s"
buffered_io = true
any_filesystem = true
[[store]]
dir = "/b"
scrub_rate = "0"
[limits]
connections = 1
requests = 2
namespaces = 3
regions = 4
region_bytes = "5GiB"
keys = 6
leases = 7
only_listed_namespaces = true
patience = "8s"
stall_time = "9s"
stop_time = "0s"
pinned_memory = false
[puts]
queue_bytes = "10MiB"
queue_time = "11s"
[admission]
admit = "second"
partial_blocks = true
write_rate = "500MB"
write_burst = "12s"
drive_writes_per_day = 1.5
wear_burst = "2h"
[memory]
dram_bytes = "3GiB"
mode = "inclusive"
numa = "1, 0"
prefetch = "window"
verify = true
[[namespace]]
name = "x"
token = "t"
share = 12
compute_per_token = "15us"
write_share = 14
admit = "all"
quota = "13GiB"
[[namespace]]
name = "y"
quota = "none"
[gate]
budget = "30ms"
compute_per_token = "14us"
gpu = "h200"
tp = 2
[pool]
id = "p"
name = "n"
dir = "/pool"
bind = "10.0.0.7:1"
advertise = "a:2"
gossip_bind = "10.0.0.7:3"
gossip_advertise = "a:4"
seeds = ["b", "c:5"]
profile = "slow"
zone = "z"
copies = 2
placement = "local"
match_time = "15ms"
get_time = "16ms"
put_time = "17ms"
drain_rate = "18MiB"
hot_reads = 9
connections = 4
transport = "rdma"
rdma_ports = ["d", "e:2"]
rdma_gid_index = 10
rdma_traffic_class = 11
rdma_service_level = 12
rdma_timeout = 13
rdma_retries = 6
rdma_landing = "20MiB"
rdma_plain = true
[admin]
address = "[::1]:0"
token = "a"
pprof = true
[log]
level = "debug"
format = "json"
`)
	o, err := f.NodeOptions()
	if err != nil {
		t.Fatal(err)
	}
	want := node.Options{Prefetch: "window", Token: "from a file", AllowUIDs: []uint32{1, 2}, OnlyListed: true, ConnectionsMax: 1, RequestsMax: 2, NamespacesMax: 3, RegionsMax: 4,
		RegionBytesMax: 5 << 30, KeysMax: 6, LeasesMax: 7, Patience: 8 * time.Second, StallTime: 9 * time.Second, KeepRegionsUnpinned: true,
		GPU: "h200", TensorParallel: 2, ComputePerToken: 14 * time.Microsecond, PutQueueBytes: 10 << 20, PutQueueTime: 11 * time.Second, Endurance: map[string]int64{"/a": 600e12, "/b": 0},
		Admission: node.Admission{Admit: node.AdmitSecond, PartialBlocks: true, WriteBytesPerSecond: 500e6, WriteBurst: 12 * time.Second,
			DrivesPerDay: 1.5, WearBurst: 2 * time.Hour},
		Namespaces: map[string]node.NamespaceRule{"x": {Token: "t", Share: 12, QuotaBytes: 13 << 30, Admit: node.AdmitAll, WriteShare: 14, ComputePerToken: 15 * time.Microsecond}, "y": {Share: 1, QuotaBytes: node.NoQuota}}}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("node\n%+v, want\n%+v", o, want)
	}
	if tier, ok := f.Memory.Tier(); !ok || !reflect.DeepEqual(tier, memory.Options{Bytes: 3 << 30, Mode: memory.Inclusive, Nodes: []int{1, 0}, Verify: true}) {
		t.Errorf("memory %+v, %v", tier, ok)
	}
	s := f.Stores[0].Options(nil)
	if s.Dir != "/a" || s.CapacityBytes != 3<<29 || s.IOEngine != "psync" || s.Rings != 2 || s.QueueDepth != 64 || s.ScrubBytesPerSecond != 10e6 ||
		s.IndexMemoryMaxBytes != 2<<30 || s.FrameBytes != 128<<20 || s.SyncInterval != time.Second/2 || s.LeaseMax != 2*time.Minute ||
		s.LeaseShare != 0.5 || s.LockWait != time.Second || !s.BufferedIO || !s.AnyFileSystem {
		t.Errorf("store %+v", s)
	}
	if id, err := f.Socket.GroupID(); id != 4711 || err != nil {
		t.Errorf("group %d, %v", id, err)
	}
	if p := f.Pool; f.PoolDir() != "/pool" || p.GossipAddress() != "10.0.0.7:3" || !reflect.DeepEqual(p, Pool{ID: "p", Name: "n", Dir: "/pool", Bind: "10.0.0.7:1", Advertise: "a:2",
		GossipBind: "10.0.0.7:3", GossipAdvertise: "a:4", Seeds: []string{"b", "c:5"}, Profile: ProfileSlow, Zone: "z", Copies: 2, Placement: PlacementLocal,
		MatchTime: Duration{15 * time.Millisecond}, GetTime: Duration{16 * time.Millisecond}, PutTime: Duration{17 * time.Millisecond},
		DrainRate: 18 << 20, HotReads: 9, Connections: 4, Transport: TransportRDMA, RDMAPorts: []string{"d", "e:2"}, RDMAGIDIndex: 10, RDMATrafficClass: 11,
		RDMAServiceLevel: 12, RDMATimeout: 13, RDMARetries: 6, RDMALanding: 20 << 20, RDMAPlain: true}) {
		t.Errorf("pool %+v", p)
	}
	for _, field := range unset(reflect.ValueOf(*f), "") {
		if !slices.Contains([]string{"socket.token", "admin.allow_remote", "admin.token_file", "namespace.token_file", "limits.stop_time", "limits.pinned_memory", "gate.model",
			"pool.keyring", "pool.tls_cert", "pool.tls_key", "pool.tls_ca", "pool.tls_names"}, field) {
			t.Errorf("this test does not set %s", field)
		}
	}
}

// unset names the fields that are zero, of lists in their first entry.
func unset(v reflect.Value, path string) (names []string) {
	for f, value := range v.Fields() {
		name := path + f.Tag.Get("toml")
		if value.Kind() == reflect.Slice && value.Len() > 0 {
			value = value.Index(0)
		}
		switch {
		case isTable(value.Type()):
			names = append(names, unset(value, name+".")...)
		case value.IsZero():
			names = append(names, name)
		}
	}
	return names
}

// TestRoundTrip: what is shown can be read again, means the same, and hides tokens.
func TestRoundTrip(t *testing.T) {
	for _, text := range []string{smallest, smallest + "[[namespace]]\nname = \"a\"\nquota = \"1500MiB\"\n[gate]\nbudget = \"1.5ms\"\n[limits]\npatience = \"59m\"\nregion_bytes = 12345\n"} {
		f := parse(t, text)
		shown, err := f.TOML()
		if err != nil {
			t.Fatal(err)
		}
		again := parse(t, string(shown))
		again.Socket.AllowUIDs, f.Socket.AllowUIDs = nil, nil
		if len(again.Namespaces) == 0 {
			again.Namespaces = nil
		}
		if !reflect.DeepEqual(f, again) {
			t.Errorf("%+v\nwas %+v", again, f)
		}
	}
	f := parse(t, smallest+"[socket]\ntoken = \"s3cret\"\n[admin]\ntoken = \"s3cret\"\n[[namespace]]\nname = \"a\"\ntoken = \"s3cret\"\n")
	if shown, err := f.TOML(); err != nil || strings.Contains(string(shown), "s3cret") || strings.Count(string(shown), "(hidden)") != 3 {
		t.Errorf("%v: %s", err, shown)
	}
}

// TestMerge: reload takes what may change and names what waits for a restart.
func TestMerge(t *testing.T) {
	old := parse(t, smallest+"[limits]\nkeys = 5\n")
	next := parse(t, `
[socket]
path = "/other"
token = "t"
[[store]]
dir = "/kv"
capacity = "1GiB"
[limits]
keys = 6
pinned_memory = false
[[namespace]]
name = "a"
[admin]
address = "127.0.0.1:1"
[log]
level = "warn"
format = "json"
`)
	merged, changed, restart := old.Merge(next)
	slices.Sort(changed)
	slices.Sort(restart)
	if want := []string{"limits.keys", "log.level", "namespace", "socket.token"}; !slices.Equal(changed, want) {
		t.Errorf("changed %v, want %v", changed, want)
	}
	if want := []string{"admin.address", "limits.pinned_memory", "log.format", "socket.path", "store[1].capacity"}; !slices.Equal(restart, want) {
		t.Errorf("restart %v, want %v", restart, want)
	}
	if merged.Limits.Keys != 6 || !merged.Limits.PinnedMemory || merged.Socket.Path != DefaultSocket || merged.Socket.Token.text != "t" ||
		len(merged.Namespaces) != 1 || merged.Stores[0].Capacity != 0 || merged.Admin.Address != "" || merged.Log.Level != "warn" {
		t.Errorf("%+v", merged)
	}
	if old.Limits.Keys != 5 || old.Log.Level != "info" {
		t.Errorf("the old one is another: %+v", old)
	}
	more := parse(t, smallest+"[[store]]\ndir = \"/more\"\n")
	if _, changed, restart := old.Merge(more); len(changed) != 1 || !slices.Equal(restart, []string{"store"}) {
		t.Errorf("another store: %v, %v", changed, restart)
	}
	if _, changed, restart := old.Merge(old); len(changed)+len(restart) != 0 {
		t.Errorf("nothing changed: %v, %v", changed, restart)
	}
}

// TestLoad: files that are none are refused, in bounded memory.
func TestLoad(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("read a folder")
	}
	if _, err := Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

// FuzzParse: any text is a configuration or an error, and what is accepted can be
// shown.
func FuzzParse(f *testing.F) {
	f.Add([]byte(smallest))
	f.Add([]byte("store = 1"))
	f.Add([]byte("[store]\ndir = 1"))
	f.Add([]byte("namespace = [{name=\"a\", share=0x7fffffffffffffff}, 1]"))
	f.Add([]byte("[admin]\naddress = \"[::1%eth0]:1\"\n" + smallest))
	f.Add([]byte("store = [[]]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("f", text)
		if err != nil || file.Check() != nil {
			return
		}
		if _, err := file.TOML(); err != nil {
			t.Errorf("accepted and cannot be shown: %v\n%q", err, text)
		}
	})
}
