package client

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// TestPathOfEnvironment: the socket is that of the options, else of SPILLWAY_SOCKET, else the
// usual one.
func TestPathOfEnvironment(t *testing.T) {
	there, given := filepath.Join(t.TempDir(), "of-environment"), filepath.Join(t.TempDir(), "given")
	for _, c := range []struct{ variable, option, want string }{
		{"", "", DefaultPath},
		{there, "", there},
		{there, given, given},
	} {
		t.Setenv("SPILLWAY_SOCKET", c.variable)
		ended, stop := context.WithCancel(context.Background())
		stop()
		client, err := Dial(ended, Options{Path: c.option})
		if err == nil { // a daemon is at the usual place
			client.Close()
			continue
		}
		if !strings.Contains(err.Error(), "connect to "+c.want+":") {
			t.Errorf("SPILLWAY_SOCKET=%q, Path %q: %v; want one that names %s", c.variable, c.option, err, c.want)
		}
	}
}
