// Package pool tests pools of real daemons, each in a network namespace of its own on one
// bridge: nodes that come, stop, are killed and frozen, networks that are cut, keys that
// change, versions that differ. Clients read and write meanwhile, and prove every byte.
//
// It needs root: the test process moves into a network and a mount namespace of its own, so
// that nothing it makes outlives it. SPILLWAY_LONG=1 makes the long ones long: networks stay cut for three minutes.
package pool

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// long reports whether the long forms of the tests are asked for.
var long = os.Getenv("SPILLWAY_LONG") != ""

// unfit says why this process cannot make networks, "" if it can.
var unfit string

const namespaceMark = "SPILLWAY_TEST_NETWORK"

func TestMain(m *testing.M) {
	unfit = isolate()
	os.Exit(run(m))
}

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
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "br0", "type", "bridge"},
		{"link", "set", "br0", "up"},
		{"netns", "add", "probe"},
		{"link", "add", "probe", "type", "veth", "peer", "name", "eth0", "netns", "probe"},
		{"netns", "del", "probe"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Sprintf("ip %v: %v: %s", args, err, out)
		}
	}
	return ""
}

// programs are the binaries under test, each built when it is first asked for.
var programs struct {
	dir   string
	mu    sync.Mutex
	built map[string]string // by build tag
}

// program builds the daemon, with a build tag or without.
func program(t *testing.T, tag string) string {
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
