package vm

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// long reports whether the long tests are asked for.
var long = os.Getenv("SPILLWAY_LONG") != ""

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit is what machines of these tests are made of.
type kit struct {
	dir   string
	image *Image
}

// newKit builds the daemon, and the tests of packages by their path in the machine, and an
// image with them; it skips where that cannot be. Those below /planted- can plant bugs.
func newKit(t *testing.T, tests map[string]string, tags string) kit {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: a minute or more; make test-vm runs it")
	}
	if err := Missing(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	k := kit{dir: t.TempDir()}
	began := time.Now()
	spillway, err := BuildProgram(k.dir, "./cmd/spillway", tags)
	if err != nil {
		t.Fatal(err)
	}
	files := Files{"/spillway": spillway}
	for name, pkg := range tests {
		tags := tags
		if strings.HasPrefix(name, "/planted-") {
			tags += ",plantedbugs"
		}
		if files[name], err = BuildTest(k.dir, pkg, tags); err != nil {
			t.Fatal(err)
		}
	}
	if k.image, err = NewImage(k.dir, files); err != nil {
		t.Fatal(err)
	}
	t.Logf("built in %v", time.Since(began).Round(100*time.Millisecond))
	return k
}

// drive makes a file for a drive with an empty file system.
func (k kit) drive(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(k.dir, name)
	if err := NewExt4(path, 3<<30); err != nil {
		t.Fatal(err)
	}
	return path
}

// boot starts a machine, which ends with the test.
func (k kit) boot(t *testing.T, o Options) *Machine {
	t.Helper()
	m, err := k.tryBoot(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (k kit) tryBoot(t *testing.T, o Options) (*Machine, error) {
	t.Helper()
	began := time.Now()
	m, err := Boot(t.Context(), k.image, o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("up in %v", time.Since(began).Round(100*time.Millisecond))
	return m, nil
}

// guestTest is a test that runs in a machine.
type guestTest struct {
	program, name string        // "/pair", "Blocks"
	limit         time.Duration // some ten times what it takes: only what has got stuck meets it
}

func (g guestTest) command() Command {
	return Command{
		Argv: []string{g.program, fmt.Sprintf("-test.v=%v", g.program == "/pair" || g.program == "/pool"), fmt.Sprintf("-test.short=%v", g.program == "/rdma" && !long),
			fmt.Sprintf("-test.timeout=%v", g.limit-5*time.Second), "-test.run=^Test" + g.name},
		Env: []string{"SPILLWAY_RDMA_PORTS=rxe1,rxe2"}, Dir: "/tmp",
	}
}

// mostHangs is how often the kernel of a machine may hang while the tests of a ground run: with
// soft-RoCE under faults, Linux 6.1 once kept a processor for ever. What ran then runs again,
// in a new machine.
const mostHangs = 2

// ground is a machine in which tests run one after the other, and the next machine when its
// kernel has hung.
type ground struct {
	t       *testing.T
	kit     kit
	options Options
	machine *Machine
	hangs   int
}

func (k kit) ground(t *testing.T, o Options) *ground {
	t.Helper()
	g := &ground{t: t, kit: k, options: o, machine: k.boot(t, o)}
	r, err := g.machine.Shell(t.Context(), "cat /proc/sys/kernel/softlockup_panic")
	if err != nil || r.Output != "1\n" {
		t.Fatalf("the kernel does not end a machine that hangs: %q, %v", r.Output, err)
	}
	return g
}

// run gives what the test has printed.
func (g *ground) run(test guestTest) (output string) {
	g.t.Run(strings.TrimSuffix(test.program[1:]+"-"+test.name, "$"), func(t *testing.T) {
		r, err := g.try(t, test)
		for errors.Is(err, ErrHung) && g.hangs < mostHangs {
			g.hangs++
			t.Logf("once more, in a new machine: %v", err)
			m, bootErr := g.kit.tryBoot(g.t, g.options) // the machine outlives this test
			if bootErr != nil {
				t.Fatal(bootErr)
			}
			g.machine = m
			r, err = g.try(t, test)
		}
		output = r.Output
		if err != nil {
			t.Fatalf("%v\n%s", err, g.machine.Console())
		}
		if r.Code != 0 {
			t.Errorf("code %d\n%s", r.Code, g.machine.Console())
		}
	})
	return output
}

func (g *ground) try(t *testing.T, test guestTest) (Result, error) {
	ctx, cancel := context.WithTimeout(t.Context(), test.limit)
	defer cancel()
	c := test.command()
	r, err := g.machine.Run(ctx, c)
	t.Logf("%s: code %d after %v\n%s", strings.Join(c.Argv, " "), r.Code, r.Took.Round(100*time.Millisecond), r.Output)
	return r, err
}

// end powers the machine off.
func (g *ground) end() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	if err := g.machine.Shutdown(ctx); err != nil {
		g.t.Error(err)
	}
}

// TestMachine runs, in one machine, everything that wants RDMA devices or drives; and in a
// second one, with a drive of the first that has gone bad in one sector, what that costs.
func TestMachine(t *testing.T) {
	k := newKit(t, map[string]string{
		"/pair": "./integration/vm/pair", "/rdma": "./cluster/transport/rdma", "/verbs": "./cluster/transport/rdma/verbs",
		"/planted-rdma": "./cluster/transport/rdma",
		"/daemon":       "./cmd/spillway/daemon", "/doctor": "./cmd/spillway/doctor",
	}, "verbs")
	one, two := Drive{Path: k.drive(t, "one")}, Drive{Path: k.drive(t, "two")}
	g := k.ground(t, Options{MemoryMiB: 4096, Drives: []Drive{one, two}})
	for _, test := range []guestTest{
		{"/verbs", "", 5 * time.Minute},
		{"/rdma", "Verbs", 6 * time.Minute},
		{"/planted-rdma", "VerbsPlanted$", 2 * time.Minute},
		{"/daemon", "RDMAHere$", 2 * time.Minute},
		{"/doctor", "(RDMAHere|Networks)$", 2 * time.Minute},
		{"/pair", "Blocks$", 8 * time.Minute},
		{"/pair", "Faults$", 12 * time.Minute},
		{"/pair", "Rights$", 3 * time.Minute},
		{"/pair", "NoLibrary$", 3 * time.Minute},
	} {
		g.run(test)
	}
	written := g.run(guestTest{"/pair", "MediaWrite$", 3 * time.Minute})
	g.end()
	if t.Failed() || written == "" { // empty: not among the tests that were asked for
		return
	}
	one.FailSector = findMark(t, one.Path, written)
	g = k.ground(t, Options{Drives: []Drive{one}})
	g.run(guestTest{"/pair", "MediaRead$", 3 * time.Minute})
	g.end()
}

// TestPool runs the suite of the pool (integration/pool) over RDMA: three nodes in trouble, and
// a benchmark through one; with SPILLWAY_LONG all of it that can be on one machine.
func TestPool(t *testing.T) {
	k := newKit(t, map[string]string{"/pool": "./integration/pool"}, "verbs")
	g := k.ground(t, Options{MemoryMiB: 6144})
	some, limit := "(Three|Fio)$", 8*time.Minute
	if long {
		some, limit = "", time.Hour
	}
	g.run(guestTest{"/pool", some, limit})
	g.end()
}

// findMark gives the sector of a drive that begins with what a test has printed behind MARK.
func findMark(t *testing.T, path, output string) int64 {
	t.Helper()
	_, line, _ := strings.Cut(output, "MARK ")
	line, _, _ = strings.Cut(line, "\n")
	mark, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil || len(mark) != 32 {
		t.Fatalf("no mark: %q, %v", line, err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for offset := int64(0); ; offset += int64(len(buf)) {
		n, err := io.ReadFull(f, buf)
		for at := 0; at+len(mark) <= n; at += 512 {
			if bytes.Equal(buf[at:][:len(mark)], mark) {
				return (offset + int64(at)) / 512
			}
		}
		if err != nil {
			t.Fatalf("the mark is not on the drive: %v", err)
		}
	}
}
