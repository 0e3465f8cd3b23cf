package pool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// spaces is the ground of network namespaces: a node has one of its own, on one bridge, and
// blocks come over TCP.
type spaces struct{}

// space is a node's namespace.
func (n *node) space() string { return fmt.Sprintf("p%dn%d", n.r.number, n.number) }

func (spaces) place(r *rig) {
	for _, n := range r.nodes {
		r.ip("netns", "add", n.space())
		link := fmt.Sprintf("v%d-%d", r.number, n.number)
		r.ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", n.space())
		r.ip("link", "set", link, "master", "br0", "up")
		r.ip("-n", n.space(), "addr", "add", n.ip+"/24", "dev", "eth0")
		r.ip("-n", n.space(), "link", "set", "eth0", "up")
		r.ip("-n", n.space(), "link", "set", "lo", "up")
	}
}

func (spaces) remove(r *rig) {
	for _, n := range r.nodes {
		r.ip("netns", "del", n.space())
	}
}

// nobody is an address on the wire that nobody has.
const nobody = "02:00:00:00:00:01"

func (spaces) cut(from, to *node) {
	from.r.ip("-n", from.space(), "neigh", "replace", to.ip, "lladdr", nobody, "dev", "eth0", "nud", "permanent")
}

func (spaces) heal(from, to *node) {
	from.r.ip("-n", from.space(), "neigh", "del", to.ip, "dev", "eth0")
}

// programs are the binaries under test, each built when it is first asked for.
var programs struct {
	dir   string
	mu    sync.Mutex
	built map[string]string // by build tag
}

func (spaces) program(t *testing.T, tag string) string {
	t.Helper()
	p := &programs
	p.mu.Lock()
	defer p.mu.Unlock()
	if path := p.built[tag]; path != "" {
		return path
	}
	path := filepath.Join(p.dir, "spillway"+tag)
	build := exec.Command("go", "build", "-tags", tag, "-o", path, "./cmd/spillway")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build -tags %q: %v\n%s", tag, err, out)
	}
	p.built[tag] = path
	return path
}

func (spaces) command(n *node, argv ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", n.space()}, argv...)...)
}

func (spaces) configured(*node) string { return "" }

func (spaces) way() string { return "tcp" }

func (spaces) slow() bool { return false }

func (spaces) lacks(string) string { return "" }

const namespaceMark = "SPILLWAY_TEST_NETWORK"

// isolate puts this process into its own network and mount namespaces: it starts itself
// again below unshare and returns only there.
func isolate() (problem string) {
	switch {
	case os.Geteuid() != 0:
		return "only root can make networks"
	case os.Getenv(namespaceMark) == "private":
		return prepare()
	case os.Getenv(namespaceMark) != "":
		return "no network namespace of our own"
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return err.Error()
	}
	if out, err := exec.Command(unshare, "--net", "--mount", "true").CombinedOutput(); err != nil {
		return fmt.Sprintf("no network namespace of our own: %v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err.Error()
	}
	args := append([]string{unshare, "--net", "--mount", "--propagation", "private", "--", self}, os.Args[1:]...)
	err = syscall.Exec(unshare, args, append(os.Environ(), namespaceMark+"=private"))
	return "no network namespace of our own: " + err.Error()
}

// prepare makes the bridge of all tests.
func prepare() (problem string) {
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return err.Error()
	}
	if err := syscall.Mount("tmpfs", "/run/netns", "tmpfs", 0, ""); err != nil {
		return "mount: " + err.Error()
	}
	return ipAll([][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "br0", "type", "bridge"},
		{"link", "set", "br0", "up"},
		{"netns", "add", "probe"},
		{"link", "add", "probe", "type", "veth", "peer", "name", "eth0", "netns", "probe"},
		{"netns", "del", "probe"},
	})
}

// ipAll runs ip again and again, until something is wrong.
func ipAll(commands [][]string) (problem string) {
	for _, args := range commands {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Sprintf("ip %v: %v: %s", args, err, out)
		}
	}
	return ""
}
