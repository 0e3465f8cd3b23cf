package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/sim"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

// status is its pool's.
func (r poolRig) status() (s admin.PoolStatus) {
	r.t.Helper()
	r.eventually("the operators' socket answers", func() bool { return r.ask("GET", "/v1/pool", "", &s) == nil })
	return s
}

// poolMetrics are its metrics, once those of the pool are among them.
func (r poolRig) poolMetrics() (text string) {
	r.t.Helper()
	address := <-r.address
	r.eventually("there are metrics of the pool", func() bool {
		_, text = get(r.t, "http://"+address+"/metrics")
		return strings.Contains(text, "spillway_pool_transport{")
	})
	return text
}

// simMachine is one with this many RDMA ports, whose process may register so many bytes; 0:
// any number.
func simMachine(t *testing.T, ports int, lockBytes int64) fabric.Fabric {
	t.Helper()
	n := sim.New(sim.Config{})
	t.Cleanup(n.Close)
	m, err := n.Machine("m", sim.MachineConfig{Ports: sim.RoCE(7, ports), MemoryLockBytes: lockBytes})
	must(t, err)
	return m
}

// TestRDMAMissing: where RDMA is wanted and not to be had, a node says so in one line, and
// is a node by tcp like any other; its status and its metrics say the same.
func TestRDMAMissing(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		fabric fabric.Fabric
		more   string
		want   string
	}{
		"no device":    {simMachine(t, 0, 0), "", "there is no RDMA here: the machine has no device"},
		"no such port": {simMachine(t, 1, 0), `rdma_ports = ["mlx5_9"]`, `no such RDMA port: "mlx5_9", there are: sim0:1`},
		"memlock":      {simMachine(t, 1, 8<<20), "", fabric.ErrMemoryLock.Error()},
		"TLS":          {simMachine(t, 1, 0), selfSigned(t, dir), "data connections are encrypted, and RDMA is not: set pool.rdma_plain = true"},
		"this machine": {nil, "", fabric.ErrNone.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := verbs.New().Ports(); c.fabric == nil && err == nil {
				t.Skip("this machine has RDMA devices")
			}
			r := newPoolRig(t, "a", "transport = \"rdma\"\n"+c.more+"\n[admin]\naddress = \"127.0.0.1:0\"\n")
			r.fabric = c.fabric
			r.start()
			s := r.status()
			if !strings.Contains(s.TransportWhy, c.want) || s.Transport != "tcp" || len(s.Ports) != 0 {
				t.Errorf("transport %s with ports %q: %q, want %q", s.Transport, s.Ports, s.TransportWhy, c.want)
			}
			metrics := r.poolMetrics()
			var state admin.State
			must(t, r.ask("GET", "/v1/stat", "", &state))
			if state.NoRDMA != s.TransportWhy {
				t.Errorf("its state says %q", state.NoRDMA)
			}
			for _, want := range []string{"spillway_pool_rdma_missing 1", `spillway_pool_transport{transport="tcp"} 1`, `spillway_pool_transport{transport="rdma"} 0`, "spillway_pool_rdma_ports 0"} {
				if !strings.Contains(metrics, want+"\n") {
					t.Errorf("no %s in the metrics", want)
				}
			}
			must(t, r.end())
			if n := strings.Count(r.log.String(), "not by rdma"); n != 1 || !strings.Contains(r.log.String(), "blocks of other nodes come by tcp, not by rdma: ") {
				t.Errorf("said %d times:\n%s", n, &r.log)
			}
		})
	}
}

// TestRDMAPresent: where it is to be had, a node uses it, says over which ports, and gives
// all of it back at its end.
func TestRDMAPresent(t *testing.T) {
	for more, ports := range map[string]int{"": 2, `rdma_ports = ["sim1"]`: 1, selfSigned(t, t.TempDir()) + "rdma_plain = true\n": 2} {
		r := newPoolRig(t, "a", "transport = \"rdma\"\n"+more+"\n[admin]\naddress = \"127.0.0.1:0\"\n")
		r.fabric = simMachine(t, 2, 0)
		r.start()
		if s := r.status(); s.Transport != "rdma" || s.TransportWhy != "" || len(s.Ports) != ports || s.Ports[ports-1] != "sim1:1 10.0.1.7" {
			t.Errorf("transport %s with ports %q: %q", s.Transport, s.Ports, s.TransportWhy)
		}
		metrics := r.poolMetrics()
		for _, want := range []string{"spillway_pool_rdma_missing 0", `spillway_pool_transport{transport="rdma"} 1`, fmt.Sprintf("spillway_pool_rdma_ports %d", ports)} {
			if !strings.Contains(metrics, want+"\n") {
				t.Errorf("no %s in the metrics", want)
			}
		}
		must(t, r.end())
		r.says("blocks of other nodes come by rdma where they have it, too")
		if text := r.log.String(); strings.Contains(text, "not by rdma") || strings.Contains(text, "stays registered") || strings.Contains(text, "cannot be closed") {
			t.Error(text)
		}
	}
}

// TestRDMAHere: on a machine with RDMA devices a node uses them, or, where it may not lock
// the memory, says that this is why not.
func TestRDMAHere(t *testing.T) {
	if _, err := verbs.New().Ports(); err != nil {
		t.Skip(err)
	}
	r := newPoolRig(t, "a", "transport = \"rdma\"\n")
	r.start()
	s := r.status()
	must(t, r.end())
	t.Logf("by %s over %q, %q", s.Transport, s.Ports, s.TransportWhy)
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit))
	if need := uint64(config.Default().Pool.RDMALanding); os.Getuid() != 0 && limit.Cur < need {
		if s.Transport != "tcp" || !strings.Contains(s.TransportWhy, fabric.ErrMemoryLock.Error()) {
			t.Errorf("with %d bytes to lock: by %s, %q", limit.Cur, s.Transport, s.TransportWhy)
		}
		r.says("blocks of other nodes come by tcp, not by rdma: ")
		return
	}
	if s.Transport != "rdma" || len(s.Ports) == 0 || s.TransportWhy != "" {
		t.Errorf("by %s over %q, %q\n%s", s.Transport, s.Ports, s.TransportWhy, &r.log)
	}
	r.says("blocks of other nodes come by rdma where they have it, too")
}

// selfSigned writes a certificate that is its own authority, and says so in a configuration.
func selfSigned(t *testing.T, dir string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	at := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	cert := at("cert", "CERTIFICATE", der)
	return fmt.Sprintf("tls_cert = %q\ntls_ca = %q\ntls_key = %q\n", cert, cert, at("key", "PRIVATE KEY", private))
}
