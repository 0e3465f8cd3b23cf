package system

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/wire"
)

// lines is a process's output, read while it writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// operated is a real daemon with a configuration file and an admin port.
type operated struct {
	t         *testing.T
	dir, file string
	socket    string
	process   *exec.Cmd
	log       *lines
}

func newOperated(t *testing.T, more string) *operated {
	t.Helper()
	o := &operated{t: t, dir: t.TempDir(), log: &lines{}}
	o.file, o.socket = filepath.Join(o.dir, "c.toml"), filepath.Join(o.dir, "s")
	o.write(more)
	return o
}

// write writes the configuration, with more at its end.
func (o *operated) write(more string) {
	o.t.Helper()
	writeFile(o.t, o.file, fmt.Appendf(nil, "[socket]\npath = %q\n[admin]\naddress = \"127.0.0.1:0\"\n[[store]]\ndir = %q\ncapacity = \"64MiB\"\nany_filesystem = true\nbuffered_io = true\n%s",
		o.socket, filepath.Join(o.dir, "store"), more))
}

// start starts the daemon; under says how, as by prlimit.
func (o *operated) start(under ...string) {
	o.t.Helper()
	o.startAs(append(under, spillway, "serve", "--config", o.file)...)
}

// startAs starts the daemon by a command.
func (o *operated) startAs(args ...string) {
	o.t.Helper()
	o.process = exec.Command(args[0], args[1:]...)
	o.log = &lines{}
	o.process.Stderr, o.process.Stdout = o.log, o.log
	if err := o.process.Start(); err != nil {
		o.t.Fatal(err)
	}
	process := o.process
	o.t.Cleanup(func() { _ = process.Process.Kill() }) // it has ended unless the test failed
}

func (o *operated) says(text string) {
	o.t.Helper()
	waitFor(o.t, fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(o.log.String(), text) })
}

func (o *operated) signal(s os.Signal) {
	o.t.Helper()
	if err := o.process.Process.Signal(s); err != nil {
		o.t.Fatal(err)
	}
}

// wait returns the exit code, -1 for a signal.
func (o *operated) wait() int {
	o.t.Helper()
	hung := time.AfterFunc(hangLimit, func() { _ = o.process.Process.Kill() })
	defer hung.Stop()
	_ = o.process.Wait() // the exit code tells
	return o.process.ProcessState.ExitCode()
}

func (o *operated) stop() {
	o.t.Helper()
	o.signal(syscall.SIGTERM)
	if code := o.wait(); code != 0 {
		o.t.Errorf("exit code %d\n%s", code, o.log)
	}
}

// admin is the address of the admin interface.
func (o *operated) admin() string {
	o.t.Helper()
	o.says("the admin interface listens")
	_, rest, _ := strings.Cut(o.log.String(), "the admin interface listens\" address=")
	return strings.Fields(rest)[0]
}

func (o *operated) get(path string) (code int, text string) {
	o.t.Helper()
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + o.admin() + path)
	if err != nil {
		o.t.Fatal(err)
	}
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return a.StatusCode, string(all)
}

func (o *operated) dial() *client.Client {
	o.t.Helper()
	return (&daemon{t: o.t, socket: o.socket, log: &strings.Builder{}}).dial(o.t)
}

// TestDaemonSignals: SIGHUP reloads and never ends a daemon, SIGTERM ends it in order,
// at any moment of its start, too, and a kill leaves nothing that hinders the next.
func TestDaemonSignals(t *testing.T) {
	o := newOperated(t, "")
	o.start()
	o.says("msg=serving")
	o.write("[limits]\nkeys = 77\n[log]\nlevel = \"debug\"\n")
	o.signal(syscall.SIGHUP)
	o.says(`msg=reloaded changed="limits.keys log.level"`)
	o.write("colour = 1\n")
	o.signal(syscall.SIGHUP)
	o.says("unknown key store.colour")
	c := o.dial()
	if l, _ := c.Limits(); l.Keys != 77 {
		t.Errorf("%+v", l)
	}
	run(t, nil, "serve", "--config", o.file).want(t, exitUsage, "unknown key store.colour")
	o.write("")
	run(t, nil, "serve", "--config", o.file).want(t, exitError, "another daemon holds it, pid "+fmt.Sprint(o.process.Process.Pid), "stop that one")
	var hits atomic.Int64
	s, err := newServed(c, 1, &hits)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				over <- nil
				return
			default:
				if err := s.step(); err != nil {
					over <- err
					return
				}
			}
		}
	}()
	waitFor(t, "hit", func() bool { return hits.Load() > 0 })
	o.stop()  // under load
	o.start() // a client has its memory back when it is connected again
	o.says("msg=serving")
	close(stop)
	if err := <-over; err != nil {
		t.Error(err)
	}
	c.Close()
	o.stop()

	seed := uint64(99)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range 20 {
		o.start()
		time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
		if i%2 == 0 {
			o.signal(syscall.SIGHUP) // before it listens for signals it would end
		}
		if i%5 == 4 {
			_ = o.process.Process.Kill()
			o.wait()
			continue
		}
		o.signal(syscall.SIGTERM)
		if code := o.wait(); code != 0 && !earlySignal(o) {
			t.Errorf("start %d: exit code %d\n%s", i, code, o.log)
		}
	}
	o.start()
	o.says("msg=serving")
	run(t, nil, "top", "--once", "--socket", o.socket).want(t, 0)
	run(t, nil, "top", "--once", "--json", "--admin", o.admin()).want(t, 0)
	o.stop()
	run(t, nil, onDir(filepath.Join(o.dir, "store"), "check")...).want(t, 0)
}

// earlySignal says that a signal ended the process before it had begun to listen for
// any: it has not even logged.
func earlySignal(o *operated) bool { return o.log.String() == "" }

// TestSecondTerm: a daemon that waits for a request ends at once when it is asked
// again.
func TestSecondTerm(t *testing.T) {
	o := newOperated(t, "[limits]\nstop_time = \"1h\"\nstall_time = \"1h\"\n")
	o.start()
	o.says("msg=serving")
	defer holdRequest(t, o).Close()
	o.signal(syscall.SIGTERM)
	o.says("msg=stopping")
	if code, _ := o.get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("ready while it stops: %d", code)
	}
	o.signal(syscall.SIGTERM)
	if code := o.wait(); code != -1 {
		t.Errorf("exit code %d, want that of a signal\n%s", code, o.log)
	}
	o.start() // what is left hinders nobody
	o.says("msg=serving")
	o.stop()
}

// holdRequest keeps a request under way: a client that does not read answers, of which
// there are more than a socket holds.
func holdRequest(t *testing.T, o *operated) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", o.socket)
	if err != nil {
		t.Fatal(err)
	}
	frames := wire.AppendFrame(nil, wire.TypeHello, 1, &wire.Hello{Lowest: 1, Highest: wire.Version, Client: "deaf"})
	for i := range 250 {
		frames = wire.AppendFrame(frames, wire.TypeStats, uint64(i+2), wire.Number(0))
	}
	if _, err := c.Write(frames); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "end of the requests", func() bool {
		_, text := o.get("/metrics")
		var all float64
		_, rest, _ := strings.Cut(text, "\nspillway_requests_total ")
		_, _ = fmt.Sscan(rest, &all)
		return all >= 250
	})
	return c
}

// TestDaemonFiles: a limit that is too low for the clients is said with both numbers;
// with one that suffices, more clients than that are refused and the daemon lives.
func TestDaemonFiles(t *testing.T) {
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("prlimit is not installed")
	}
	o := newOperated(t, "[limits]\nconnections = 300\n")
	o.start("prlimit", "--nofile=128:128")
	if code := o.wait(); code != exitUsage || !strings.Contains(o.log.String(), "allows 128 open files, 300 clients need 664") {
		t.Errorf("exit code %d\n%s", code, o.log)
	}
	o.write("[limits]\nconnections = 32\n")
	o.start("prlimit", "--nofile=160:160")
	o.says("msg=serving")
	var idle []net.Conn
	for range 300 {
		if c, err := net.Dial("unix", o.socket); err == nil {
			idle = append(idle, c)
		}
	}
	if code, _ := o.get("/healthz"); code != http.StatusOK {
		t.Errorf("healthz %d", code)
	}
	for _, c := range idle {
		_ = c.Close()
	}
	o.dial().Close()
	o.stop()
}

// TestAttachDetach: clients that come, register memory, work and go leave nothing:
// neither descriptors nor mappings.
func TestAttachDetach(t *testing.T) {
	rounds := 150
	if long {
		rounds = 100_000
	}
	o := newOperated(t, "")
	o.start()
	o.says("msg=serving")
	attach := func() {
		c := o.dial()
		defer c.Close()
		var hits atomic.Int64
		s, err := newServed(c, 1, &hits)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.step(); err != nil {
				t.Error(err)
			}
		}
	}
	held := func() (files, mappings int) {
		pid := o.process.Process.Pid
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), strings.Count(string(text), "\n")
	}
	for range 20 { // what grows once has grown
		attach()
	}
	gone := func() bool { _, text := o.get("/v1/clients"); return strings.Contains(text, `"clients":[]`) }
	waitFor(t, "end of the clients", gone)
	files, mappings := held()
	for range rounds {
		attach()
	}
	waitFor(t, "end of the clients", gone)
	// A segment more or a thread more is no leak: one a round would be.
	if f, m := held(); f > files+rounds/4 || m > mappings+rounds/2 {
		t.Errorf("%d descriptors and %d mappings, before %d rounds %d and %d", f, m, rounds, files, mappings)
	}
	o.stop()
}

// TestNoisyNeighbours: HTTP to the clients' socket and noise to the admin port end in
// refusals.
func TestNoisyNeighbours(t *testing.T) {
	o := newOperated(t, "")
	o.start()
	o.says("msg=serving")
	seed := uint64(7)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range 40 {
		noise := []byte("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if i > 0 {
			noise = make([]byte, rng.IntN(100_000))
			for j := range noise {
				noise[j] = byte(rng.Uint32())
			}
		}
		for network, address := range map[string]string{"unix": o.socket, "tcp": o.admin()} {
			c, err := net.Dial(network, address)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			_, _ = c.Write(noise) // it may be cut off
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}
	if code, text := o.get("/healthz"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("%d, %s", code, text)
	}
	waitFor(t, "end of the noise, counted", func() bool {
		_, text := o.get("/metrics")
		return strings.Contains(text, "\nspillway_connections 0\n") && !strings.Contains(text, "\nspillway_connections_malformed_total 0\n")
	})
	o.stop()
	if strings.Contains(o.log.String(), "panic") {
		t.Error(o.log)
	}
}

// TestDaemonWithoutDirectIO: on a file system without direct I/O a daemon refuses to
// start, naming the directory, unless it is allowed to buffer; then a metric says so.
func TestDaemonWithoutDirectIO(t *testing.T) {
	requireTools(t, "mount")
	o := newOperated(t, "")
	store := filepath.Join(ramfs(t), "store")
	text, err := os.ReadFile(o.file)
	if err != nil {
		t.Fatal(err)
	}
	there := strings.Replace(string(text), filepath.Join(o.dir, "store"), store, 1)
	writeFile(t, o.file, []byte(strings.Replace(there, "buffered_io = true\n", "", 1)))
	run(t, nil, "serve", "--config", o.file).want(t, exitError, store, "direct I/O")
	writeFile(t, o.file, []byte(there))
	o.start()
	o.says("msg=serving")
	if _, text := o.get("/metrics"); !strings.Contains(text, fmt.Sprintf("spillway_store_direct_io{store=%q} 0\n", store)) {
		t.Error("no metric says that I/O is buffered")
	}
	o.stop()
}

// TestUnit: systemd has nothing to complain about in the unit.
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	text, err := os.ReadFile("../../deploy/systemd/spillway.service")
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile("../../deploy/systemd/rdma.conf")
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "spillway.service")
	writeFile(t, unit, bytes.Replace(text, []byte("/usr/local/bin/spillway"), []byte(spillway), -1))
	for _, what := range []string{"the unit", "the unit for RDMA"} {
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
		if err != nil || strings.Contains(string(out), "spillway.service") {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
		if err := os.MkdirAll(unit+".d", 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(unit+".d", "rdma.conf"), more)
	}
}

// TestContainerConfig: the image's configuration is one.
func TestContainerConfig(t *testing.T) {
	run(t, nil, "config", "check", "../../deploy/container/spillway.toml").want(t, 0)
}
