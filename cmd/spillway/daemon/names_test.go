package daemon

import (
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

// TestTLSOptions: what the configuration says of certificates is what the transport gets.
func TestTLSOptions(t *testing.T) {
	files := "tls_cert = \"c\"\ntls_key = \"k\"\ntls_ca = \"a\"\n"
	for text, want := range map[string]*tcp.TLS{
		"":                            nil,
		files:                         {CA: "a", Certificate: "c", Key: "k"},
		files + "tls_names = false\n": {CA: "a", Certificate: "c", Key: "k"},
		files + "tls_names = true\n":  {CA: "a", Certificate: "c", Key: "k", CheckNames: true},
	} {
		f, err := config.Parse("c.toml", []byte("[pool]\nid = \"p\"\n"+text))
		must(t, err)
		got := (&daemon{config: f}).transportOptions().TLS
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %+v, want %+v", strings.ReplaceAll(text, "\n", "; "), got, want)
		}
	}
}
