package tcp_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/cluster/transport/transporttest"
)

func TestSuiteOverTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite runs over plain text")
	}
	ca := newAuthority(t, "ours")
	transporttest.Run(t, transporttest.Rig{New: func(t *testing.T) transport.Transport {
		return listen(t, tcp.Options{TLS: ca.files(t.TempDir(), "n0", -1, 1)})
	}})
}

// TestCertificates: who is let in, and what both sides say where not. The node that
// serves is n0, the one that asks is n1.
func TestCertificates(t *testing.T) {
	ours, foreign := newAuthority(t, "ours"), newAuthority(t, "foreign")
	good := func(t *testing.T, name string) *tcp.TLS { return ours.files(t.TempDir(), name, -1, 1) }
	strict := func(f *tcp.TLS) *tcp.TLS {
		f.CheckNames = true
		return f
	}
	mixed := func(t *testing.T) *tcp.TLS { // trusts ours, shows another's
		f := foreign.files(t.TempDir(), "n1", -1, 1)
		f.CA = good(t, "n1").CA
		return f
	}
	for _, c := range []struct {
		name           string
		server, client func(t *testing.T) *tcp.TLS
		says           []string // in the error of Dial; none: it works
		counted        func(server tcp.Counts) int64
	}{
		{name: "both good", server: func(t *testing.T) *tcp.TLS { return good(t, "n0") }, client: func(t *testing.T) *tcp.TLS { return good(t, "n1") }},
		{name: "names good", server: func(t *testing.T) *tcp.TLS { return strict(good(t, "n0")) }, client: func(t *testing.T) *tcp.TLS { return strict(good(t, "n1")) }},
		{
			name: "client expired", server: func(t *testing.T) *tcp.TLS { return good(t, "n0") },
			client: func(t *testing.T) *tcp.TLS { return ours.files(t.TempDir(), "n1", -5, -1) },
			says:   []string{"n0 refuses what n1 shows", "certificate of n1", "expired"}, counted: func(c tcp.Counts) int64 { return c.Certificates },
		},
		{
			name: "client not yet", server: func(t *testing.T) *tcp.TLS { return good(t, "n0") },
			client: func(t *testing.T) *tcp.TLS { return ours.files(t.TempDir(), "n1", 2, 3) },
			says:   []string{"n0 refuses what n1 shows", "not yet valid"}, counted: func(c tcp.Counts) int64 { return c.Certificates },
		},
		{
			name: "client foreign", server: func(t *testing.T) *tcp.TLS { return good(t, "n0") }, client: mixed,
			says: []string{"n0 refuses what n1 shows", "foreign", "unknown authority"}, counted: func(c tcp.Counts) int64 { return c.Certificates },
		},
		{
			name: "client of another name", server: func(t *testing.T) *tcp.TLS { return strict(good(t, "n0")) },
			client: func(t *testing.T) *tcp.TLS { return good(t, "n2") },
			says:   []string{"n0 refuses what n1 shows", "certificate of n2"}, counted: func(c tcp.Counts) int64 { return c.Certificates },
		},
		{
			name: "server expired", server: func(t *testing.T) *tcp.TLS { return ours.files(t.TempDir(), "n0", -5, -1) },
			client: func(t *testing.T) *tcp.TLS { return good(t, "n1") },
			says:   []string{"n1 to the peer at 127.0.0.1", "certificate of n0", "expired"}, counted: func(c tcp.Counts) int64 { return c.Certificates },
		},
		{
			name: "server foreign", server: func(t *testing.T) *tcp.TLS { return foreign.files(t.TempDir(), "n0", -1, 1) },
			client: func(t *testing.T) *tcp.TLS { return good(t, "n1") },
			says:   []string{"n1 to the peer at", "foreign", "unknown authority"}, counted: func(c tcp.Counts) int64 { return c.Certificates },
		},
		{
			name: "server of another name", server: func(t *testing.T) *tcp.TLS { return good(t, "n9") },
			client: func(t *testing.T) *tcp.TLS { return strict(good(t, "n1")) },
			says:   []string{"n1 refuses what n0 shows", "certificate of n9"},
		},
		{
			name: "plain client", server: func(t *testing.T) *tcp.TLS { return good(t, "n0") }, client: func(t *testing.T) *tcp.TLS { return nil },
			says: []string{"plain text; TLS is on at n0"}, counted: func(c tcp.Counts) int64 { return c.Plain },
		},
		{
			name: "plain server", server: func(t *testing.T) *tcp.TLS { return nil }, client: func(t *testing.T) *tcp.TLS { return good(t, "n1") },
			says: []string{"TLS is on here", "plain text"}, counted: func(c tcp.Counts) int64 { return c.Plain },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := listen(t, tcp.Options{TLS: c.server(t)}), listen(t, tcp.Options{TLS: c.client(t)})
			serve(t, server, handler{})
			l, err := client.Dial(t.Context(), server.Address().String(), hello(1))
			if len(c.says) == 0 {
				must(t, err)
				echoes(t, l)
				return
			}
			if err == nil {
				t.Fatal("it was let in")
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error lacks %q:\n%v", word, err)
				}
			}
			if c.counted != nil {
				until(t, "the server counts it", func() bool { return c.counted(server.Counts()) == 1 })
			}
		})
	}
}

// TestCertificatesReload: files are read again when they change, and what cannot be
// used changes nothing.
func TestCertificatesReload(t *testing.T) {
	ours, next := newAuthority(t, "ours"), newAuthority(t, "next")
	serverDir, clientDir := t.TempDir(), t.TempDir()
	var log said
	server := listen(t, tcp.Options{TLS: ours.files(serverDir, "n0", -1, 1), Logger: log.logger()})
	client := listen(t, tcp.Options{TLS: ours.files(clientDir, "n1", -1, 1)})
	serve(t, server, handler{})
	before := dial(t, client, server.Address().String())

	files := next.files(serverDir, "n0", -1, 1)
	touch(t, files, 1)
	if _, err := client.Dial(t.Context(), server.Address().String(), hello(1)); err == nil {
		t.Fatal("the server does not show its new certificate")
	}
	touch(t, next.files(clientDir, "n1", -1, 1), 1)
	echoes(t, dial(t, client, server.Address().String()))
	echoes(t, before) // links that are there stay

	must(t, os.WriteFile(files.Key, []byte("half a k"), 0o600))
	touch(t, files, 2)
	echoes(t, dial(t, client, server.Address().String()))
	if !strings.Contains(log.String(), "those from before stay in use") {
		t.Errorf("nobody hears that the files cannot be used: %s", log.String())
	}
	must(t, os.Remove(files.Certificate))
	echoes(t, dial(t, client, server.Address().String()))
}

// touch makes the files look changed, however coarse the clock of their system is.
func touch(t *testing.T, f *tcp.TLS, n int) {
	t.Helper()
	at := time.Now().Add(time.Duration(n) * time.Minute)
	for _, name := range []string{f.CA, f.Certificate, f.Key} {
		must(t, os.Chtimes(name, at, at))
	}
}

func TestOptions(t *testing.T) {
	ca := newAuthority(t, "ours")
	files := ca.files(t.TempDir(), "n0", -1, 1)
	for name, o := range map[string]tcp.Options{
		"connections":  {Connections: 5},
		"negative":     {Connections: -1},
		"in flight":    {InFlightBytes: 4096},
		"silence":      {Silence: time.Millisecond},
		"long silence": {Silence: time.Hour},
		"stall":        {StallTime: -1},
		"handlers":     {Handlers: -1},
		"all":          {ConnectionsMax: -1},
		"TLS":          {TLS: &tcp.TLS{CA: files.CA}},
	} {
		o.Listen = "127.0.0.1:0"
		if n, err := tcp.Listen(o); !errors.Is(err, tcp.ErrOptions) {
			t.Errorf("%s: %v, %v", name, n, err)
		}
	}
	for name, change := range map[string]func(f *tcp.TLS){
		"no CA":      func(f *tcp.TLS) { f.CA += "?" },
		"not a CA":   func(f *tcp.TLS) { f.CA = f.Key },
		"no key":     func(f *tcp.TLS) { f.Key += "?" },
		"wrong file": func(f *tcp.TLS) { f.Key = f.CA },
	} {
		f := *files
		change(&f)
		if n, err := tcp.Listen(tcp.Options{Listen: "127.0.0.1:0", TLS: &f}); err == nil {
			t.Errorf("%s: %v", name, n)
		}
	}
}
