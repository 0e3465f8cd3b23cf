//go:build verbs && linux && cgo

package verbs_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric/fabrictest"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/verbs"
)

// portsVariable names two ports of this machine that reach each other, such as
// "rxe1,rxe2:1": the tests that need devices run with those.
const portsVariable = "SPILLWAY_RDMA_PORTS"

// ports are the two named ones. Without a name the test is skipped; with one, they must be
// there.
func ports(t *testing.T) (f fabric.Fabric, two [2]fabric.Port) {
	t.Helper()
	names := strings.Split(os.Getenv(portsVariable), ",")
	if len(names) != 2 {
		t.Skipf("needs two RDMA ports that reach each other: set %s=rxe1:1,rxe2:1", portsVariable)
	}
	f = verbs.New()
	all, err := f.Ports()
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		found := false
		for _, p := range all {
			if p.Name() == name || p.Device == name && p.Number == 1 {
				two[i], found = p, true
			}
		}
		if !found {
			t.Fatalf("no port %s among %+v", name, all)
		}
	}
	return f, two
}

// address is the GID that tests use: the first RoCE v2 one of IPv4, or of InfiniBand.
func address(t *testing.T, p fabric.Port) fabric.GID {
	t.Helper()
	for _, g := range p.GIDs {
		if g.Type == fabric.InfiniBand || g.Type == fabric.RoCEv2 && g.Address.Is4In6() {
			return g
		}
	}
	t.Fatalf("port %s has no address to use: %+v", p.Name(), p.GIDs)
	return fabric.GID{}
}

func TestSuite(t *testing.T) {
	f, two := ports(t)
	fabrictest.Run(t, fabrictest.Rig{Pair: func(t *testing.T) (a, b fabric.Device) {
		var devices [2]fabric.Device
		for i, p := range two {
			d, err := f.Open(p, address(t, p))
			if err != nil {
				t.Fatal(err)
			}
			devices[i] = d
		}
		return devices[0], devices[1]
	}})
}

func TestNoDevice(t *testing.T) {
	all, err := verbs.New().Ports()
	if err == nil {
		t.Skipf("this machine has %d RDMA ports", len(all))
	}
	if !errors.Is(err, fabric.ErrNone) || len(all) != 0 {
		t.Errorf("Ports: %v, %v, want ErrNone", all, err)
	}
	t.Log(err)
}
