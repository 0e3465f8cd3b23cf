package rdmatest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestControlAlone: the histories hold for a transport without RDMA, the one of the calls.
func TestControlAlone(t *testing.T) {
	n := uint64(40)
	if testing.Short() {
		n = 6
	}
	var sum Figures
	for seed := uint64(1); seed <= n; seed++ {
		h := Generate(seed, "")
		res := Run(t, h, func(o rdma.Options) (transport.Transport, error) { return o.Control, nil })
		if res.Err != nil {
			t.Fatalf("history %d (%s): %v\n%s", seed, h.Mode, res.Err, res.Log)
		}
		sum.Add(res.Figures)
	}
	t.Logf("%+v", sum)
}
