package vm

import (
	"context"
	"errors"
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

func (w *two) link(state string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if r, err := w.machines[0].Shell(ctx, "/usr/bin/ip link set v1 "+state); err != nil || r.Code != 0 {
		w.t.Fatalf("%v: %s", err, r.Output)
	}
}

// TestFrozenMachine stops the machine that writes a block while the other one gives the block
// up. With a fence, the peer's word or a destroyed queue pair, memory stays as it is once it
// is released; without one it must be seen to change, or the test would prove nothing.
func TestFrozenMachine(t *testing.T) {
	if !long {
		t.Skip("skipped: a minute or two; SPILLWAY_LONG=1 runs it")
	}
	k := newKit(t, map[string]string{"/pair": "./integration/vm/pair", "/planted-pair": "./integration/vm/pair"}, "verbs")
	w := &two{t: t, kit: k}
	cable := newCable(t)
	for i := range w.machines {
		w.machines[i] = k.boot(t, Options{Role: i + 1, Network: cable.option(i), MemoryMiB: 1024, Processors: 1})
	}
	for _, c := range []struct {
		name, program string
		env           []string
		changes       bool
	}{
		{"fenced", "/pair", nil, false},
		{"unfenced", "/planted-pair", []string{"SPILLWAY_PLANTED=skip-fence"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			code, out := w.frozen(c.program, c.env)
			changed := strings.Contains(out, "memory was changed after it was released")
			if changed != c.changes || code != 0 && !c.changes {
				t.Errorf("code %d, memory has changed: %v, want %v", code, changed, c.changes)
			}
		})
	}
}

// frozen runs TestFrozen of package pair in both machines, and gives what the caller found.
func (w *two) frozen(program string, env []string) (code int, output string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 4*time.Minute)
	defer cancel()
	for i, m := range w.machines {
		p, err := m.Start(Command{
			Argv: []string{program, "-test.v", "-test.run=^TestFrozen$", "-test.timeout=5m"}, Dir: "/tmp",
			Env: append([]string{fmt.Sprint("SPILLWAY_VM_ROLE=", i+1)}, env...),
		})
		if err == nil && i == 0 {
			err = p.Says(ctx, "SERVING")
		}
		if err != nil {
			w.t.Fatal(err)
		}
		w.nodes[i] = p
	}
	caller := w.nodes[1]
	for round := 1; caller.SaysTimes(ctx, "ASKED\n", round) == nil; round++ {
		time.Sleep(200 * time.Millisecond) // some of the block is there, some is on its way
		if err := w.machines[0].Freeze(); err != nil {
			w.t.Fatal(err)
		}
		err := caller.SaysTimes(ctx, "LATE\n", round)
		time.Sleep(time.Second)
		if err = errors.Join(err, w.machines[0].Thaw()); err != nil {
			w.t.Fatal(err)
		}
	}
	r, err := caller.Wait(ctx)
	w.t.Logf("caller: %v, code %d\n%s", err, r.Code, r.Output)
	w.order(0, "end")
	served, err := w.nodes[0].Wait(ctx)
	if err != nil || served.Code != 0 {
		w.t.Errorf("server: %v, code %d\n%s", err, served.Code, served.Output)
	}
	return r.Code, r.Output
}
