package vm

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// strikeTime is how long a fault of a machine lasts: longer than the deadlines of the
// readers in it, than a fence waits, and than all retries of a queue pair.
const strikeTime = 5 * time.Second

// two are two machines with a node in each, which read each other's blocks.
type two struct {
	t        *testing.T
	kit      kit
	drives   [2]string
	env      []string
	cable    *cable
	machines [2]*Machine
	nodes    [2]*Process // TestApart of package pair
	steps    [2]int      // that the nodes were asked for
}

func newTwo(t *testing.T, k kit, env ...string) *two {
	t.Helper()
	w := &two{t: t, kit: k, env: env, cable: newCable(t)}
	for i := range w.drives {
		w.drives[i] = k.drive(t, strings.ReplaceAll(fmt.Sprintf("%s-%d", t.Name(), i), "/", "-"))
	}
	w.start(0)
	w.start(1)
	w.flows()
	return w
}

// start boots a machine and starts its node.
func (w *two) start(i int) {
	w.t.Helper()
	m := w.kit.boot(w.t, Options{Drives: []Drive{{Path: w.drives[i]}}, Role: i + 1, Network: w.cable.option(i), MemoryMiB: 1536, Processors: 1})
	w.machines[i] = m
	p, err := m.Start(Command{
		Argv: []string{"/pair", "-test.v", "-test.run=^TestApart$", "-test.timeout=20m"}, Dir: "/tmp",
		Env: append([]string{fmt.Sprint("SPILLWAY_VM_ROLE=", i+1)}, w.env...),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.nodes[i], w.steps[i] = p, 0
}

// flows waits until blocks come by RDMA to both nodes.
func (w *two) flows() {
	w.t.Helper()
	for i := range w.nodes {
		w.order(i, "flow")
		w.steps[i]++
	}
	for i, p := range w.nodes {
		ctx, cancel := context.WithTimeout(w.t.Context(), 4*time.Minute)
		err := p.Says(ctx, fmt.Sprintf("FLOWS %d\n", w.steps[i]))
		cancel()
		if err != nil {
			w.t.Fatalf("node %d: %v\n%s", i+1, err, w.machines[i].Console())
		}
	}
}

func (w *two) order(i int, what string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if r, err := w.machines[i].Shell(ctx, "mkdir -p /tmp/orders && touch /tmp/orders/"+what); err != nil || r.Code != 0 {
		w.t.Fatalf("node %d: %v: %s", i+1, err, r.Output)
	}
}

// end has the nodes stop and judge; the results say what they found.
func (w *two) end() (results [2]Result) {
	w.t.Helper()
	for i := range w.nodes {
		w.order(i, "end")
	}
	for i, p := range w.nodes {
		ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
		r, err := p.Wait(ctx)
		cancel()
		if err != nil {
			w.t.Fatalf("node %d: %v\n%s", i+1, err, r.Output)
		}
		w.t.Logf("node %d: code %d\n%s", i+1, r.Code, r.Output)
		results[i] = r
	}
	return results
}

// TestTwoMachines does to two machines what happens to machines: they lose power, they stop
// for a while, the network between them goes. After each, blocks travel by RDMA again, none
// was wrong, and no memory was written to after it was released.
func TestTwoMachines(t *testing.T) {
	if !long {
		t.Skip("skipped: minutes; SPILLWAY_LONG=1 runs it")
	}
	k := newKit(t, map[string]string{"/pair": "./integration/vm/pair"}, "verbs")
	w := newTwo(t, k)
	for i, m := range w.machines {
		t.Logf("machine %d stops for a while", i+1)
		w.freeze(m, strikeTime)
		w.flows()
	}
	t.Log("machine 1 stops again and again, as long as a fence waits for its word")
	w.flicker()
	w.flows()
	for i := range w.machines {
		t.Logf("machine %d loses power", i+1)
		w.machines[i].Kill()
		if out := w.nodes[i].Output(); strings.Contains(out, "load_test.go") {
			t.Errorf("node %d had found something:\n%s", i+1, out) // its readers speak of errors only, until they end
		}
		time.Sleep(strikeTime)
		w.start(i)
		w.flows()
	}
	t.Log("the network goes")
	w.link("down")
	time.Sleep(strikeTime)
	w.link("up")
	w.flows()
	for i, r := range w.end() {
		if r.Code != 0 {
			t.Errorf("node %d has found something", i+1)
		}
	}
}

// freeze stops a machine for a time.
func (w *two) freeze(m *Machine, d time.Duration) {
	w.t.Helper()
	if err := m.Freeze(); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(d)
	if err := m.Thaw(); err != nil {
		w.t.Fatal(err)
	}
}

// flicker stops the first machine a few times for hardly longer than a fence waits for the
// peer's word: what was on its way arrives when the deadlines of some reads have passed, and
// queue pairs still stand.
func (w *two) flicker() {
	for range 5 {
		w.freeze(w.machines[0], 700*time.Millisecond)
		time.Sleep(2 * time.Second)
	}
}

func (w *two) link(state string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if r, err := w.machines[0].Shell(ctx, "/usr/bin/ip link set v1 "+state); err != nil || r.Code != 0 {
		w.t.Fatalf("%v: %s", err, r.Output)
	}
}

// TestTwoMachinesUnfenced proves that a machine that stopped would be noticed if its blocks'
// memory were released without a fence: with that bug planted, memory changes afterwards.
func TestTwoMachinesUnfenced(t *testing.T) {
	if !long {
		t.Skip("skipped: minutes; SPILLWAY_LONG=1 runs it")
	}
	k := newKit(t, map[string]string{"/pair": "./integration/vm/pair"}, "verbs,plantedbugs")
	w := newTwo(t, k, "SPILLWAY_PLANTED=skip-fence")
	for range 10 {
		w.flicker()
		if strings.Contains(w.nodes[1].Output(), "memory was changed after it was released") {
			return
		}
	}
	w.end()
	t.Error("nobody has noticed that memory was released without a fence")
}
