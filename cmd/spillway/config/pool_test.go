package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/member"
)

// TestPoolLines: what is wrong with a value of [pool] is said with its line.
func TestPoolLines(t *testing.T) {
	for text, want := range map[string]string{
		"[pool]\nid = \"a b\"\n":                                  `c.toml:2: pool.id is "a b"`,
		"[pool]\nid = \"a\"\n\nname = \"-x\"\n":                   `c.toml:4: pool.name is "-x"`,
		"[pool]\nzone = \"" + strings.Repeat("z", 33) + "\"\n":    "c.toml:2: pool.zone",
		"[pool]\nid = \"" + strings.Repeat("z", 65) + "\"\n":      "at most 64",
		"[pool]\nplacement = \"far\"\n":                           "c.toml:2: pool.placement is \"far\", want run or local",
		"[pool]\nprofile = \"lan\"\n":                             "c.toml:2: pool.profile",
		"[log]\nlevel = \"info\"\n[pool] # here\ncopies = 4\n":    "c.toml:4: pool.copies is 4, want 1 to 3",
		"pool.copies = 0\n":                                       "c.toml:1: pool.copies is 0",
		"[pool]\nconnections = 5\n":                               "c.toml:2: pool.connections",
		"[pool]\nmatch_time = \"0s\"\n":                           "c.toml:2: pool.match_time",
		"[pool]\nput_time = \"2h\"\n":                             "pool.put_time is 2h, want 1ms to 1m",
		"[pool]\ndrain_rate = \"1KiB\"\n":                         "c.toml:2: pool.drain_rate",
		"[pool]\nhot_reads = -1\n":                                "c.toml:2: pool.hot_reads",
		"[pool]\nbind = \"10.0.0.7\"\n":                           `c.toml:2: pool.bind is "10.0.0.7": want a host and a port`,
		"[pool]\nbind = \"\"\n":                                   "c.toml:2: pool.bind",
		"[pool]\nbind = \":x\"\n":                                 "no number",
		"[pool]\nbind = \"fd00::7:7420\"\n":                       "[fd00::7]:7420",
		"[pool]\ngossip_bind = \"7421\"\n":                        "c.toml:2: pool.gossip_bind",
		"[pool]\nadvertise = \":7420\"\n":                         "c.toml:2: pool.advertise",
		"[pool]\nadvertise = \"0.0.0.0:7420\"\n":                  "every address",
		"[pool]\nadvertise = \"[::]:7420\"\n":                     "every address",
		"[pool]\nbind = \":1\"\ngossip_bind = \":1\"\n":           "a port each",
		"[pool]\ngossip_advertise = \"10.0.0.7:0\"\n":             "c.toml:2: pool.gossip_advertise",
		"[pool]\nseeds = [\"a:1\",\n \"http://b\"]\n":             `c.toml:2: pool.seeds has "http://b"`,
		"[pool]\nseeds = \"a\"\n":                                 "c.toml:2:",
		"[pool]\nmatch_time = 5\n":                                "c.toml:2:",
		"[pool]\nseed = []\n":                                     "c.toml:2: unknown key pool.seed; known here are id, name",
		"[[store]]\ndir = \"/a\"\n[pool]\nid = \"p\"\nrate = 1\n": "c.toml:5: unknown key pool.rate",
		"[pools]\n": "c.toml:1: unknown key pools",
	} {
		_, err := Parse("c.toml", []byte(text))
		var wrong *Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n  %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"bind = \"[::1]:7420\"\nseeds = [\"fd00::7\", \"[fd00::7]:1\", \"10.0.0.7\", \"node-a.example.org:7421\", \"[fd00::8]\"]",
		"advertise = \"node-a\"", "advertise = \"[fd00::7]:7420\"\ngossip_advertise = \"fd00::7\"", "name = \"a.b-c_d\"\nid = \"0\""} {
		if _, err := Parse("c.toml", []byte("[pool]\n"+text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestPoolGossipReads: what is taken for an address here the gossip takes for one, too.
func TestPoolGossipReads(t *testing.T) {
	p := Pool{GossipAdvertise: "fd00::7", Seeds: []string{"fd00::7", "::ffff:10.0.0.7", "[fd00::7]", "[fd00::7]:1", "10.0.0.7", "10.0.0.7:1", "node-a.example.org", "a:1"}}
	if err := p.checkAddresses(); err != nil && err.key != "bind" {
		t.Fatal(err)
	}
	for _, text := range append(p.GossipSeeds(), p.GossipAdvertised()) {
		if a, err := member.ParseAddress(text, member.DefaultPort); err != nil || a.Any() || a.Port == 0 {
			t.Errorf("%s is %v, %v", text, a, err)
		}
	}
	if got := (&Pool{}).GossipAdvertised(); got != "" {
		t.Errorf("nothing is %q", got)
	}
}

// TestPoolWhole: what does not fit together is refused, and what follows from other
// values is found.
func TestPoolWhole(t *testing.T) {
	const store = "[[store]]\ndir = \"/kv/store/\"\n[pool]\n"
	for text, want := range map[string]string{
		"seeds = [\"a\"]": "without an id",
		"id = \"p\"\nname = \"n\"\ntls_cert = \"c\"": "go together",
		"id = \"p\"\nname = \"n\"":                   "",
		"":                                           "",
	} {
		f, err := Parse("c.toml", []byte(store+text))
		if err != nil {
			t.Fatal(err)
		}
		if err = f.Check(); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if f.PoolDir() != "/kv/store.pool" {
			t.Errorf("its state is in %s", f.PoolDir())
		}
	}
	for bind, want := range map[string]string{":7420": ":7421", "[::1]:9": "[::1]:10", "10.0.0.7:0": "10.0.0.7:0", ":65535": ":0"} {
		if p := (Pool{Bind: bind}); p.GossipAddress() != want {
			t.Errorf("gossip beside %s is at %s, want %s", bind, p.GossipAddress(), want)
		}
	}
	if p := (Pool{Bind: ":1", GossipBind: ":7"}); p.GossipAddress() != ":7" {
		t.Error(p.GossipAddress())
	}
}

// TestPoolExplained: config check says what takes effect, and who could get in.
func TestPoolExplained(t *testing.T) {
	for more, want := range map[string]string{"": "no keyring and no certificates", "keyring = \"k\"\n": "no certificates",
		"tls_cert = \"a\"\ntls_key = \"b\"\ntls_ca = \"c\"\n": "no keyring:", "keyring = \"k\"\ntls_cert = \"a\"\ntls_key = \"b\"\ntls_ca = \"c\"\n": "this node begins a pool"} {
		f, err := Parse("c.toml", []byte("[[store]]\ndir = \"/kv\"\n[pool]\nid = \"prod\"\nname = \"n\"\n"+more))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(f.Explain(), "\n")
		for _, say := range []string{"pool prod: this node is n, its data port on :7420, its gossip on :7421, its state in /kv.pool", want} {
			if !strings.Contains(text, say) {
				t.Errorf("%q: no %q in\n%s", more, say, text)
			}
		}
		if strings.Contains(text, "whoever") != (f.Pool.Insecure() != "") {
			t.Errorf("%q: %s", more, text)
		}
	}
}

// certificates writes an authority and a certificate, for so many days, signed by one between
// the two.
func certificates(t *testing.T, dir string, days int, uses ...x509.ExtKeyUsage) {
	t.Helper()
	put := func(name, kind string, ders ...[]byte) {
		var text []byte
		for _, der := range ders {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	make := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			signer = key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		return key, der
	}
	now := time.Now()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caKey, der := make(ca, ca, nil)
	put("ca", "CERTIFICATE", der)
	between := *ca
	between.SerialNumber, between.Subject = big.NewInt(3), pkix.Name{CommonName: "between"}
	betweenKey, betweenDER := make(&between, ca, caKey)
	key, der := make(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node-a"}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(0, 0, days),
		DNSNames: []string{"a.cluster", "b"}, ExtKeyUsage: uses}, &between, betweenKey)
	put("cert", "CERTIFICATE", der, betweenDER)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put("key", "PRIVATE KEY", der)
}

// TestPoolFiles: keyring and certificates are read before a daemon starts with them, and
// config check says until when they are good.
func TestPoolFiles(t *testing.T) {
	dir := t.TempDir()
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	certificates(t, dir, 30, both...)
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"keyring": "# ours\nAAAA\n", "none": "# nothing\n\n"} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ofPool := func(more string) *File {
		f, err := Parse("c.toml", []byte("[[store]]\ndir = \"/kv\"\n[pool]\nid = \"p\"\nname = \"n\"\n"+more))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	secured := func(cert, key, ca string) string {
		return fmt.Sprintf("tls_cert = %q\ntls_key = %q\ntls_ca = %q\n", at(cert), at(key), at(ca))
	}
	for more, want := range map[string]string{
		fmt.Sprintf("keyring = %q", at("keyring")): "",
		fmt.Sprintf("keyring = %q", at("none")):    "no key in the file",
		fmt.Sprintf("keyring = %q", at("absent")):  "no such file",
		secured("cert", "key", "ca"):               "",
		secured("cert", "absent", "ca"):            "no such file",
		secured("ca", "key", "ca"):                 "does not match",
		secured("cert", "key", "key"):              "no certificate in PEM",
	} {
		if err := ofPool(more).Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
	good := ofPool(secured("cert", "key", "ca"))
	if text := strings.Join(good.Explain(), "\n"); !strings.Contains(text, "the certificate of node-a is good until 20") {
		t.Error(text)
	}
	for name, fits := range map[string]bool{"a.cluster": true, "b": true, "c": false, "cluster": false, "node-a": false} {
		named := ofPool(secured("cert", "key", "ca") + "tls_names = true\n")
		named.Pool.Name = name
		if err := named.Check(); err != nil {
			t.Error(err)
		}
		if text := strings.Join(named.Explain(), "\n"); strings.Contains(text, "refuse the certificate of node-a") == fits || strings.Contains(text, "is good until") != fits {
			t.Errorf("a node named %s: %s", name, text)
		}
	}
	if err := ofPool("tls_names = true\n").Check(); err == nil || !strings.Contains(err.Error(), "pool.tls_names is about certificates") {
		t.Errorf("names without certificates: %v", err)
	}
	for _, c := range []struct {
		days int
		uses []x509.ExtKeyUsage
	}{{-1, both}, {30, both[:1]}} {
		certificates(t, dir, c.days, c.uses...)
		if text := strings.Join(good.Explain(), "\n"); !strings.Contains(text, "refuse the certificate of node-a") {
			t.Errorf("%+v: %s", c, text)
		}
	}
}
