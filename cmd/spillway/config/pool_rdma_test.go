package config

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"crypto/x509"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// TestRDMAPorts: no port can be named twice, in whatever way, nor more than are used.
func TestRDMAPorts(t *testing.T) {
	names := []string{"a", "a:1", "a:2", "b", "b:1", "c.d:1", "c.d:2", "e_1", "e_1:1", "f", "g", "h", "i", "j:7"}
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var ports []string
		for range rng.IntN(12) {
			ports = append(ports, names[rng.IntN(len(names))])
		}
		twice := false
		for i, one := range ports {
			for _, other := range ports[:i] {
				twice = twice || one == other || strings.HasPrefix(one, other+":") || strings.HasPrefix(other, one+":")
			}
		}
		quoted := make([]string, len(ports))
		for i := range ports {
			quoted[i] = strconv.Quote(ports[i])
		}
		_, err := Parse("c.toml", []byte("[pool]\nrdma_ports = ["+strings.Join(quoted, ", ")+"]\n"))
		want := ""
		switch {
		case len(ports) > 8:
			want = fmt.Sprintf("c.toml:2: pool.rdma_ports names %d, at most 8 ports are used", len(ports))
		case twice:
			want = "twice"
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("seed %d, %q: %v, want %q", seed, ports, err, want)
		}
	}
	// The transport's bound is the same.
	var found []fabric.Port
	for i := range 2 * rdmaPortsMax {
		found = append(found, fabric.Port{Device: fmt.Sprint("d", i), Number: 1, Ethernet: true, Active: true, Limits: fabric.Limits{ReceivesMax: 1 << 15},
			GIDs: []fabric.GID{{Index: 1, Type: fabric.RoCEv2, Address: netip.MustParseAddr("10.0.0.1")}}})
	}
	if chosen, _, err := rdma.Choose(found, nil, 0); err != nil || len(chosen) != rdmaPortsMax {
		t.Errorf("the transport chooses %d of %d ports: %v", len(chosen), len(found), err)
	}
}

// TestRDMALines: what is wrong with a value for RDMA is said with its line, and every bound
// is where it is said to be.
func TestRDMALines(t *testing.T) {
	for text, want := range map[string]string{
		`transport = "ucx"`:                  `c.toml:2: pool.transport is "ucx", want tcp or rdma`,
		`transport = ""`:                     "pool.transport",
		`rdma_ports = ["mlx5 0"]`:            `c.toml:2: pool.rdma_ports has "mlx5 0"`,
		`rdma_ports = ["mlx5_0:0"]`:          "mlx5_0:1",
		`rdma_ports = [""]`:                  "pool.rdma_ports has",
		`rdma_ports = ["a", "a"]`:            `has "a" twice`,
		`rdma_gid_index = -1`:                "pool.rdma_gid_index is -1, want 0 to 255",
		`rdma_gid_index = 256`:               "pool.rdma_gid_index",
		`rdma_traffic_class = 256`:           "pool.rdma_traffic_class is 256, want 0 to 255",
		`rdma_service_level = 16`:            "pool.rdma_service_level is 16, want 0 to 15",
		`rdma_timeout = 7`:                   "pool.rdma_timeout is 7, want 8 to 22",
		`rdma_timeout = 23`:                  "pool.rdma_timeout",
		`rdma_retries = 7`:                   "pool.rdma_retries is 7, want 1 to 6: with 7 some devices",
		`rdma_retries = 0`:                   "pool.rdma_retries",
		`rdma_landing = "512KiB"`:            "pool.rdma_landing is 512KiB, want 1MiB to 64GiB",
		`rdma_landing = "65GiB"`:             "pool.rdma_landing",
		`rdma_ports = "mlx5_0"`:              `c.toml:2: pool.rdma_ports: its value is of type string, want a list such as ["a", "b"]`,
		`rdma_ports = [1]`:                   "pool.rdma_ports: its value is of type integer, want text in quotes",
		`rdma_plain = "yes"`:                 "pool.rdma_plain: its value is of type string, want true or false",
		`rdma_gid_index = "3"`:               "pool.rdma_gid_index: its value is of type string, want a whole number",
		`rdma_gid_index = 3.5`:               "want a whole number",
		`rdma_plane = true`:                  "unknown key pool.rdma_plane",
		`rdma_timeout = "67ms"`:              "c.toml:2:",
		`transport = "rdma"`:                 "",
		`rdma_ports = ["mlx5_0", "b-c:2"]`:   "",
		"rdma_gid_index = 255":               "",
		"rdma_traffic_class = 104":           "",
		"rdma_service_level = 15":            "",
		"rdma_timeout = 8":                   "",
		"rdma_timeout = 22":                  "",
		"rdma_retries = 1":                   "",
		"rdma_retries = 6":                   "",
		`rdma_landing = "64GiB"`:             "",
		"transport = \"tcp\"\nrdma_ports=[]": "",
	} {
		_, err := Parse("c.toml", []byte("[pool]\n"+text+"\n"))
		var wrong *Error
		if want == "" && err != nil || want != "" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s:\n  %v, want %q", text, err, want)
		}
	}
}

// TestRDMAOptions: the keys arrive, and every configuration that is let through makes
// options that the transport takes.
func TestRDMAOptions(t *testing.T) {
	f := parse(t, smallest+`
[pool]
id = "p"
transport = "rdma"
rdma_ports = ["mlx5_0:1"]
rdma_gid_index = 3
rdma_traffic_class = 104
rdma_service_level = 3
rdma_timeout = 16
rdma_retries = 6
rdma_landing = "1GiB"
`)
	o := f.Pool.RDMAOptions()
	if want := (fabric.Path{Timeout: 16, Retries: 6, TrafficClass: 104, ServiceLevel: 3}); o.Path != want || o.GIDIndex != 3 || o.LandingBytes != 1<<30 || fmt.Sprint(o.Ports) != "[mlx5_0:1]" {
		t.Errorf("%+v", o)
	}
	f.Memory.DRAMBytes = 3 << 30
	frames := node.Options{}.WithDefaults().PeerFrameBytes
	if got := f.RDMABytes(); got != 5<<30+frames || frames == 0 {
		t.Errorf("%d bytes are registered", got)
	}
	plain := parse(t, smallest)
	if o := plain.Pool.RDMAOptions(); o.Path.Timeout != 14 || o.Path.Retries != 5 || o.LandingBytes != 64<<20 || plain.Pool.Transport != TransportTCP {
		t.Errorf("by default %+v", o)
	}
}

// TestRDMAWithCertificates: with certificates RDMA wants a word of its own, and config check
// says which way blocks would come.
func TestRDMAWithCertificates(t *testing.T) {
	dir := t.TempDir()
	certificates(t, dir, 30, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	if err := os.WriteFile(filepath.Join(dir, "keyring"), []byte("AAAA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tls := fmt.Sprintf("tls_cert = %q\ntls_key = %q\ntls_ca = %q\n", filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "ca"))
	for _, c := range []struct {
		text, want string
		refused    bool
	}{
		{"", "", false},
		{tls, "", false},
		{tls + "rdma_plain = true\n", "", false},
		{`transport = "rdma"`, "blocks come by RDMA over all RDMA ports that are up", false},
		{"transport = \"rdma\"\nrdma_ports = [\"a\", \"b\"]\nrdma_landing = \"1GiB\"", "over RDMA ports a, b, as far as this machine and the other nodes have it, else by tcp; spillway doctor says what this machine has; twice rdma_landing, 2 GiB, is locked", false},
		{"transport = \"rdma\"\nrdma_traffic_class = 106", "the memory tier; on RoCE in class 106, DSCP 26", false},
		{tls + `transport = "rdma"`, "blocks come by tcp: data connections are encrypted, and RDMA is not: set pool.rdma_plain = true", true},
		{tls + "transport = \"rdma\"\nrdma_plain = true", "that network must be trusted", false},
	} {
		f := parse(t, smallest+"\n[pool]\nid = \"p\"\nname = \"n\"\n"+c.text)
		if err := f.Check(); err != nil {
			t.Errorf("%s: %v", c.text, err)
		}
		text := strings.Join(f.Explain(), "\n")
		if !strings.Contains(text, c.want) || strings.Contains(text, "blocks come by") != (c.want != "") {
			t.Errorf("%s: no %q in\n%s", c.text, c.want, text)
		}
		if (f.Pool.RDMARefused() != "") != c.refused {
			t.Errorf("%s: refused: %q", c.text, f.Pool.RDMARefused())
		}
	}
}
