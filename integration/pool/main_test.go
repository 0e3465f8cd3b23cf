// Package pool tests pools of real daemons, each in a network namespace of its own on one
// bridge: nodes that come, stop, are killed and frozen, networks that are cut, keys that
// change, versions that differ. Clients read and write meanwhile, and prove every byte.
//
// It needs root: the test process moves into a network and a mount namespace of its own, so
// that nothing it makes outlives it. In the virtual machine of integration/vm the same tests
// run over RDMA (machine says how, and what cannot be had there). SPILLWAY_LONG=1 makes the long ones long: networks stay cut for three minutes.
package pool

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// long reports whether the long forms of the tests are asked for.
var long = os.Getenv("SPILLWAY_LONG") != ""

func TestMain(m *testing.M) {
	findGround()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "spillway-pool-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs.dir, programs.built = dir, map[string]string{}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
