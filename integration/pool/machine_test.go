package pool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// machine is the ground of the virtual machine of integration/vm: RDMA devices in software.
// The kernel's belong to the first network namespace, so all nodes share it, and are kept
// apart otherwise. Each has one end of a veth pair with an address and an RDMA device, the
// other end is on one bridge; its daemon runs as a user of its own, and what that user, or
// its address, sends leaves by that end, where it would take the shorter way through the
// loopback device otherwise.
type machine struct{}

// device is a node's network interface, port is the other end, rdma its RDMA device.
func (n *node) device() string { return fmt.Sprintf("p%dn%d", n.r.number, n.number) }
func (n *node) port() string   { return fmt.Sprintf("q%dn%d", n.r.number, n.number) }
func (n *node) rdma() string   { return fmt.Sprintf("r%dn%d", n.r.number, n.number) }

// user runs the node's daemon; its number is that of the node's table of routes, too.
func (n *node) user() int { return 2000 + 16*n.r.number + n.number }

// Preferences of the rules for what is sent.
const (
	toItself = "20"
	toOthers = "30"
)

// rules are those of a node. What arrives is taken in at any preference below.
func (n *node) rules() [][]string {
	user, table := fmt.Sprintf("%d-%d", n.user(), n.user()), fmt.Sprint(n.user())
	return [][]string{
		{"pref", "10", "iif", n.device(), "lookup", "local"},
		{"pref", toItself, "to", n.ip, "uidrange", user, "lookup", "local"},
		{"pref", toItself, "from", n.ip, "to", n.ip, "lookup", "local"},
		{"pref", toOthers, "to", n.r.network(), "uidrange", user, "lookup", table},
		{"pref", toOthers, "from", n.ip, "to", n.r.network(), "lookup", table},
	}
}

func (machine) place(r *rig) {
	for _, n := range r.nodes {
		r.ip("link", "add", n.device(), "type", "veth", "peer", "name", n.port())
		for _, link := range []string{n.device(), n.port()} {
			r.ip("link", "set", link, "mtu", "9000", "up")
		}
		r.ip("link", "set", n.port(), "master", "br0")
		// Without a route of its own: that of another node would be taken for it.
		r.ip("addr", "add", n.ip+"/24", "dev", n.device(), "noprefixroute")
		for _, of := range [][2]string{{"rp_filter", "0"}, {"arp_ignore", "1"}, {"arp_announce", "2"}} {
			r.set("/proc/sys/net/ipv4/conf/"+n.device()+"/"+of[0], of[1])
		}
		// One processor for what arrives: spread over two, packets lose their order.
		for _, link := range []string{n.device(), n.port()} {
			r.set("/sys/class/net/"+link+"/queues/rx-0/rps_cpus", "1")
		}
		for _, rule := range n.rules() {
			r.ip(append([]string{"rule", "add"}, rule...)...)
		}
		r.ip("route", "add", r.network(), "dev", n.device(), "src", n.ip, "table", fmt.Sprint(n.user()))
		r.run("rdma", "link", "add", n.rdma(), "type", "rxe", "netdev", n.device())
	}
	for _, from := range r.nodes {
		for _, to := range r.nodes {
			if from != to {
				here.heal(from, to)
			}
		}
	}
}

func (machine) remove(r *rig) {
	for _, n := range r.nodes {
		for _, rule := range n.rules() {
			r.ip(append([]string{"rule", "del"}, rule...)...)
		}
		r.run("rdma", "link", "delete", n.rdma())
		r.ip("link", "del", n.device())
	}
}

func (machine) cut(from, to *node) {
	from.r.ip("neigh", "replace", to.ip, "lladdr", nobody, "dev", from.device(), "nud", "permanent")
}

func (machine) heal(from, to *node) {
	address, err := os.ReadFile("/sys/class/net/" + to.device() + "/address")
	if err != nil {
		from.r.t.Error(err)
	}
	from.r.ip("neigh", "replace", to.ip, "lladdr", strings.TrimSpace(string(address)), "dev", from.device(), "nud", "permanent")
}

// program is what the machine was made with: nothing is built there.
func (machine) program(t *testing.T, tag string) string {
	t.Helper()
	if tag != "" {
		t.Fatalf("no program with the tag %s here", tag)
	}
	return "/spillway"
}

func (machine) command(n *node, argv ...string) *exec.Cmd {
	c := exec.Command(argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(n.user()), Gid: uint32(n.user())}}
	// What the test has made is that user's.
	err := filepath.WalkDir(n.r.dir, func(path string, _ os.DirEntry, err error) error {
		if name := filepath.Base(path); err == nil && strings.HasPrefix(name, n.name+".") {
			err = os.Chown(path, n.user(), n.user())
		}
		return err
	})
	if err == nil {
		err = os.Chmod(n.r.dir, 0o777)
	}
	if err != nil {
		n.r.t.Error(err)
	}
	return c
}

func (machine) configured(n *node) string {
	return fmt.Sprintf("transport = \"rdma\"\nrdma_ports = [%q]", n.rdma())
}

func (machine) way() string { return "rdma" }

func (machine) slow() bool { return true }

func (machine) lacks(test string) string {
	return map[string]string{
		"TestUDPBlocked": "blocks travel in UDP here, too",
		"TestIPv6Only":   "the nodes are kept apart by routes of IPv4",
		"TestUpgrade":    "programs of other versions would have to be built here",
		"TestLostNode":   "a trace asks for more than this machine does in minutes",
		"TestLocalReads": "it is about speed, and speeds in here mean nothing",
	}[test]
}

// prepareMachine makes the bridge of all tests.
func prepareMachine() (problem string) {
	return ipAll([][]string{
		{"link", "add", "br0", "type", "bridge"},
		{"link", "set", "br0", "mtu", "9000", "up"},
	})
}
