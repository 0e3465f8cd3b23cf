package pool

import (
	"os"
	"os/exec"
	"testing"
)

// ground is what the nodes of a rig stand on: a network, and a way of blocks between nodes.
// All tests are the same on every ground, but for those that it says it cannot carry.
type ground interface {
	// place gives the nodes of a rig addresses on one network, apart from all other rigs.
	place(r *rig)
	// remove takes all of it away again; the daemons have ended.
	remove(r *rig)
	// cut drops silently what one node sends to another, heal ends that.
	cut(from, to *node)
	heal(from, to *node)
	// program is the path of the daemon's program, built with a tag.
	program(t *testing.T, tag string) string
	// command is a daemon of the node, not started yet.
	command(n *node, argv ...string) *exec.Cmd
	// configured is what belongs below [pool] in the node's configuration.
	configured(n *node) string
	// way is the name of the transport that blocks are to come by.
	way() string
	// slow reports whether all is done by a processor in software: nodes may look dead to
	// each other for want of it, and tests do less.
	slow() bool
	// lacks says why a test cannot run here; "" if it can.
	lacks(test string) string
}

// here is the ground of this process, unfit why there is none.
var (
	here  ground
	unfit string
)

// findGround makes the ground: in the virtual machine of integration/vm its RDMA devices,
// elsewhere network namespaces and TCP.
func findGround() {
	if os.Getenv("SPILLWAY_VM") != "" {
		here = machine{}
		unfit = prepareMachine()
		return
	}
	here = spaces{}
	unfit = isolate()
}
