package rdmatest

import (
	"os"
	"strconv"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestControlAlone: the histories hold for a transport without RDMA, the one of the calls.
func TestControlAlone(t *testing.T) {
	n := uint64(20)
	if s, err := strconv.ParseUint(os.Getenv("N"), 10, 64); err == nil {
		n = s
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
