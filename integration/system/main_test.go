// Package system holds tests of the whole system: the real binary, real files,
// real file systems, and processes that are really killed.
//
// SPILLWAY_LONG=1 makes the long ones long. Tests that mount need root; the
// test process then moves into a mount namespace of its own, so that nothing it
// mounts outlives it, whatever happens.
package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// The programs under test, built once.
var spillway, loadgen string

// long reports whether the long forms of the tests are asked for.
var long = os.Getenv("SPILLWAY_LONG") != ""

// unmountable says why this process cannot mount anything, "" if it can.
var unmountable string

const namespaceMark = "SPILLWAY_TEST_MOUNTS"

func TestMain(m *testing.M) {
	if socket := os.Getenv(clientMark); socket != "" {
		beClient(socket)
	}
	unmountable = isolate()
	os.Exit(withPrograms(m))
}

// isolate puts this process into its own mount namespace: it starts itself
// again below unshare and returns only there.
func isolate() (problem string) {
	switch {
	case os.Geteuid() != 0:
		return "only root can mount file systems"
	case os.Getenv(namespaceMark) == "private":
		return ""
	case os.Getenv(namespaceMark) != "":
		return "no mount namespace of our own"
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return err.Error()
	}
	if out, err := exec.Command(unshare, "--mount", "true").CombinedOutput(); err != nil {
		return fmt.Sprintf("no mount namespace of our own: %v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err.Error()
	}
	args := append([]string{unshare, "--mount", "--propagation", "private", "--", self}, os.Args[1:]...)
	err = syscall.Exec(unshare, args, append(os.Environ(), namespaceMark+"=private"))
	return "no mount namespace of our own: " + err.Error()
}

func withPrograms(m *testing.M) int {
	dir, err := os.MkdirTemp("", "spillway-system-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	spillway, loadgen = filepath.Join(dir, "spillway"), filepath.Join(dir, "loadgen")
	for _, b := range [][2]string{{spillway, "./cmd/spillway"}, {loadgen, "./integration/loadgen"}} {
		build := exec.Command("go", "build", "-o", b[0], b[1])
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build %s: %v\n%s", b[1], err, out)
			return 1
		}
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
