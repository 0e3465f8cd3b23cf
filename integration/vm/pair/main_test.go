// Package pair holds tests of two real daemons whose blocks travel by RDMA, on a machine with
// two RDMA devices and two NVMe drives: that of package vm, which builds and runs them. They
// take links down and mount drives, so that they run nowhere else.
package pair

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// program is the daemon under test in the machine, built with the tag verbs.
const program = "/spillway"

func TestMain(m *testing.M) {
	if os.Getenv("SPILLWAY_VM") == "" {
		fmt.Println("skipped: these tests run in the virtual machine of integration/vm")
		return
	}
	goleak.VerifyTestMain(m)
}
