package member

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	for _, c := range []struct {
		text string
		port uint16
		want string // or a hint of the error, after !
	}{
		{"192.0.2.1:7421", 0, "192.0.2.1:7421"},
		{"192.0.2.1", 7421, "192.0.2.1:7421"},
		{"192.0.2.1:1", 7421, "192.0.2.1:1"},
		{"[2001:db8::1]:7421", 0, "[2001:db8::1]:7421"},
		{"[2001:DB8:0::1]:7421", 0, "[2001:db8::1]:7421"},
		{"[::1]", 7421, "[::1]:7421"},
		{"node-3.example:7421", 0, "node-3.example:7421"},
		{"node_3", 7421, "node_3:7421"},
		{"node.example.", 7421, "node.example.:7421"},
		{":7421", 0, ":7421"},
		{":0", 0, ":0"},
		{"0.0.0.0:7421", 0, "0.0.0.0:7421"},
		{"[::]:7421", 0, "[::]:7421"},
		{"192.0.2.1", 0, "!the port is missing"},
		{"::1", 7421, "!write IPv6 addresses in brackets"},
		{"2001:db8::1:7421", 7421, "!write IPv6 addresses in brackets"},
		{"[::1", 7421, "!closing bracket"},
		{"[::1]7421", 7421, "!after the bracket"},
		{"[::1]:", 7421, "!after the bracket"},
		{"[127.0.0.1]:7421", 7421, "!only IPv6 addresses stand in brackets"},
		{"[node]:7421", 7421, "!only IPv6 addresses stand in brackets"},
		{"[fe80::1%eth0]:7421", 7421, "!other nodes do not know"},
		{"192.0.2.1:", 7421, "!want host:port"},
		{"", 7421, "!want host:port"},
		{"192.0.2.1:65536", 0, "!no number from 0 to 65535"},
		{"192.0.2.1:-1", 0, "!no number from 0 to 65535"},
		{"192.0.2.1:+1", 0, "!no number from 0 to 65535"},
		{"192.0.2.1:http", 0, "!no number from 0 to 65535"},
		{"192.0.2.256:1", 0, "!no IP address"},
		{"192.0.2:1", 0, "!no IP address"},
		{"http://node:1", 0, "!write IPv6"},
		{"node/x:1", 0, "!without scheme"},
		{"a b:1", 0, "!neither an IP address nor a DNS name"},
		{"a..b:1", 0, "!neither an IP address nor a DNS name"},
		{strings.Repeat("a", 64) + ":1", 0, "!neither an IP address nor a DNS name"},
		{strings.Repeat("a.", 130) + "a:1", 0, "!at most 253"},
	} {
		a, err := ParseAddress(c.text, c.port)
		hint, bad := strings.CutPrefix(c.want, "!")
		switch {
		case bad && (!errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), hint)):
			t.Errorf("%q: %v, %v; want a hint: %s", c.text, a, err, hint)
		case !bad && (err != nil || a.String() != c.want):
			t.Errorf("%q: %v, %v; want %s", c.text, a, err, c.want)
		}
	}
	for text, any := range map[string]bool{":1": true, "0.0.0.0:1": true, "[::]:1": true, "127.0.0.1:1": false, "node:1": false} {
		if a, err := ParseAddress(text, 0); err != nil || a.Any() != any {
			t.Errorf("%s: any %v, %v", text, a.Any(), err)
		}
	}
}

// FuzzParseAddress: what is parsed prints as what parses to the same again.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"192.0.2.1:7421", "[::1]:1", "node:1", ":0", "[fe80::1%eth0]:1", "[::ffff:1.2.3.4]:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text, 7421)
		if err != nil {
			if !errors.Is(err, ErrAddress) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := ParseAddress(a.String(), 0)
		if err != nil || again != a {
			t.Errorf("%q is %+v, prints %s, is then %+v, %v", text, a, a, again, err)
		}
		if ip, ok := a.IP(); ok {
			if _, err := netip.ParseAddrPort(a.String()); err != nil || !ip.IsValid() {
				t.Errorf("%q prints %s: %v", text, a, err)
			}
		}
	})
}
