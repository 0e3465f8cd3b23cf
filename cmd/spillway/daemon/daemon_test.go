package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cmd/spillway/config"
	"github.com/spillway-kv/spillway/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logText is a log that several goroutines may write and read.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *logText) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *logText) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// rig is a daemon within this process.
type rig struct {
	t       *testing.T
	dir     string // for its files
	text    string // its configuration
	env     map[string]string
	log     logText
	reload  chan struct{}
	address chan string
	stop    context.CancelFunc
	ended   chan error
	fabric  fabric.Fabric // nil: this machine's
}

// newRig writes a configuration with so many stores; more is added to it.
func newRig(t *testing.T, stores int, more string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), env: map[string]string{}, reload: make(chan struct{}, 1)}
	for i := range stores {
		r.text += fmt.Sprintf("[[store]]\ndir = %q\ncapacity = \"64MiB\"\nany_filesystem = true\nbuffered_io = true\nlock_wait = \"1ms\"\n", r.store(i))
	}
	r.text += more
	return r
}

func (r *rig) store(i int) string { return filepath.Join(r.dir, fmt.Sprint("store", i)) }

func (r *rig) socket() string { return filepath.Join(r.dir, "s") }

// load reads the configuration as serve does.
func (r *rig) load() (*config.File, error) {
	f, err := config.Parse("test.toml", []byte(r.text))
	if err != nil {
		return nil, err
	}
	f.Socket.Path = r.socket()
	return f, nil
}

// start runs the daemon; wait waits for its end.
func (r *rig) start() *rig {
	r.t.Helper()
	f, err := r.load()
	if err == nil {
		err = f.Check()
	}
	must(r.t, err)
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.ended, r.address = stop, make(chan error, 1), make(chan string, 1)
	o := Options{Config: f, Load: r.load, Reload: r.reload, Version: "v1", Stderr: &r.log, Fabric: r.fabric, Getenv: func(name string) string { return r.env[name] },
		Began: func(address string) { r.address <- address }}
	go func() { r.ended <- Run(ctx, o) }()
	r.t.Cleanup(func() {
		stop()
		if r.ended != nil {
			<-r.ended
		}
	})
	return r
}

// end stops the daemon and returns what it ended with.
func (r *rig) end() error {
	r.t.Helper()
	r.stop()
	return r.wait()
}

func (r *rig) wait() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		r.ended = nil
		return err
	case <-time.After(2 * time.Minute):
		r.t.Fatalf("the daemon does not end\n%s", &r.log)
		return nil
	}
}

func (r *rig) dial(token string) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Path: r.socket(), Token: token})
	if err == nil {
		r.t.Cleanup(c.Close)
	}
	return c, err
}

// says waits for a line of the log.
func (r *rig) says(text string) {
	r.t.Helper()
	eventually(r.t, "the log says "+text, func() bool { return strings.Contains(r.log.String(), text) }, r.log.String)
}

func eventually(t *testing.T, what string, is func() bool, explain func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s\n%s", what, explain())
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := c.Get(url)
	must(t, err)
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	must(t, err)
	return a.StatusCode, string(all)
}

// TestLife: clients find the daemon when it is ready, its blocks survive, and nothing
// is left of the socket.
func TestLife(t *testing.T) {
	r := newRig(t, 2, "[admin]\naddress = \"127.0.0.1:0\"\n")
	for life := range 3 {
		r.start()
		c, err := r.dial("")
		must(t, err)
		ns, err := c.Namespace(t.Context(), engine.Descriptor{Name: "a", BlockBytes: 4096}, "")
		must(t, err)
		memory, err := c.Allocate(4096)
		must(t, err)
		block := []client.Block{{Key: []byte("k"), Places: []client.Place{memory.Row(0, 4096)}}}
		if want := (life > 0); (ns.Get(block, client.GetOptions{}).Wait().Prefix == 1) != want {
			t.Errorf("life %d: hit %v", life, !want)
		}
		ns.Put(block, client.PutOptions{}).Wait()
		address := <-r.address
		if code, text := get(t, "http://"+address+"/readyz"); code != 200 {
			t.Errorf("%d, %s", code, text)
		}
		must(t, r.end())
		if _, err := os.Lstat(r.socket()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
		c.Close()
	}
}

// TestReload: what may change does, what may not is named, what is wrong changes
// nothing.
func TestReload(t *testing.T) {
	r := newRig(t, 1, "")
	stores := r.text
	secret := filepath.Join(r.dir, "token")
	must(t, os.WriteFile(secret, []byte("one"), 0o600))
	r.text += fmt.Sprintf("[socket]\ntoken_file = %q\n", secret)
	r.start()
	_, err := r.dial("one")
	must(t, err)

	must(t, os.WriteFile(secret, []byte("two\n"), 0o600))
	r.reload <- struct{}{}
	r.says(`msg=reloaded changed=""`)
	_, err = r.dial("two")
	must(t, err)

	r.text += "[limits]\nconnections = \"many\"\n"
	r.reload <- struct{}{}
	r.says("everything stays as it was")
	r.text = strings.Replace(r.text, "[limits]\nconnections = \"many\"\n", "", 1)
	must(t, os.Remove(secret))
	r.reload <- struct{}{}
	r.says("no such file")
	_, err = r.dial("two")
	must(t, err)

	r.text = strings.Replace(stores, "64MiB", "96MiB", 1) + "[limits]\nkeys = 7\n[log]\nlevel = \"debug\"\nformat = \"json\"\n[admin]\naddress = \"127.0.0.1:1\"\n"
	r.reload <- struct{}{}
	r.says(`msg="needs a restart, ignored until then" keys="store[1].capacity admin.address log.format"`)
	r.says(`changed="socket.token_file limits.keys log.level"`)
	c, err := r.dial("none is needed any more")
	must(t, err)
	if l, _ := c.Limits(); l.Keys != 7 {
		t.Errorf("%+v", l)
	}
	r.says("level=DEBUG")
	must(t, r.end())
}

// TestStores: a store that cannot be opened refuses the start, unless it is optional
// and not the last.
func TestStores(t *testing.T) {
	r := newRig(t, 2, "")
	must(t, os.WriteFile(r.store(1), []byte("no folder"), 0o600))
	r.start()
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), "store "+r.store(1)) {
		t.Errorf("%v\n%s", err, &r.log)
	}
	if _, err := os.Lstat(r.socket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a socket: %v", err)
	}
	// The first is closed in order, and opens at once.
	r.text = strings.Replace(r.text, fmt.Sprintf("dir = %q\n", r.store(1)), fmt.Sprintf("dir = %q\noptional = true\n", r.store(1)), 1) + "[admin]\naddress = \"127.0.0.1:0\"\n"
	r.start()
	_, err := r.dial("")
	must(t, err)
	address := <-r.address
	if code, text := get(t, "http://"+address+"/healthz"); code != 200 || !strings.Contains(text, r.store(1)+" could not be opened") {
		t.Errorf("%d, %s", code, text)
	}
	if _, text := get(t, "http://"+address+"/metrics"); !strings.Contains(text, fmt.Sprintf("spillway_store_open{store=%q} 0", r.store(1))) {
		t.Error("no metric says so")
	}
	must(t, r.end())
	r.says("an optional store cannot be opened")

	r = newRig(t, 1, "")
	must(t, os.WriteFile(r.store(0), nil, 0o600))
	r.text = strings.Replace(r.text, "[[store]]\n", "[[store]]\noptional = true\n", 1)
	r.start()
	if err := r.wait(); err == nil || !strings.Contains(err.Error(), "no store could be opened") {
		t.Error(err)
	}
}

// TestSecondStart: while one daemon has the path, a second is refused at once; a
// store in use elsewhere, or a port, refuses a start and leaves nothing behind.
func TestSecondStart(t *testing.T) {
	r := newRig(t, 1, "[admin]\naddress = \"127.0.0.1:0\"\n").start()
	_, err := r.dial("")
	must(t, err)
	address := <-r.address
	second := newRig(t, 1, "")
	second.dir = r.dir
	second.start()
	var taken *node.SocketError
	if err := second.wait(); !errors.As(err, &taken) || !strings.Contains(err.Error(), "another daemon holds it") {
		t.Error(err)
	}
	thief := newRig(t, 0, "")
	thief.text = r.text
	thief.start()
	if err := thief.wait(); !errors.Is(err, engine.ErrInUse) {
		t.Errorf("%v, want ErrInUse", err)
	}
	port := newRig(t, 1, fmt.Sprintf("[admin]\naddress = %q\n", address))
	port.start()
	if err := port.wait(); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
	if code, _ := get(t, "http://"+address+"/healthz"); code != 200 {
		t.Error("the first was harmed")
	}
	must(t, r.end())
}

// manager is a service manager's socket.
type manager struct {
	socket *net.UnixConn
	said   chan string
}

func newManager(t *testing.T, name string) *manager {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	must(t, err)
	m := &manager{c, make(chan string, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			m.said <- string(b[:n])
		}
	}()
	t.Cleanup(func() { _ = c.Close(); <-done })
	return m
}

// next waits for a message with this line; others are passed over.
func (m *manager) next(t *testing.T, line string) string {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case s := <-m.said:
			for _, l := range strings.Split(s, "\n") {
				if l == line {
					return s
				}
			}
		case <-timeout:
			t.Fatalf("the service manager is never told %s", line)
		}
	}
}

// TestServiceManager: a service manager hears of each turn, in order, and that the
// daemon lives.
func TestServiceManager(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@spillway-test-%d", os.Getpid())} {
		m := newManager(t, name)
		r := newRig(t, 1, "")
		r.env = map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": fmt.Sprint(os.Getpid())}
		r.start()
		m.next(t, "STATUS=opening stores, 0 of 1 done")
		m.next(t, "READY=1")
		if _, err := os.Lstat(r.socket()); err != nil {
			t.Errorf("ready, and no socket: %v", err)
		}
		for range 5 {
			m.next(t, "WATCHDOG=1")
		}
		r.reload <- struct{}{}
		if s := m.next(t, "RELOADING=1"); !strings.Contains(s, "\nMONOTONIC_USEC=") {
			t.Errorf("%q", s)
		}
		m.next(t, "READY=1")
		r.stop()
		m.next(t, "STOPPING=1")
		must(t, r.wait())
	}
}

// TestWatchdogTime: only what is meant for this process counts.
func TestWatchdogTime(t *testing.T) {
	pid := fmt.Sprint(os.Getpid())
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{{"", "", 0}, {"1000000", "", time.Second}, {"1000000", pid, time.Second}, {"1000000", "1", 0}, {"0", "", 0}, {"-5", "", 0}, {"x", "", 0}, {"9999999999999999999", "", 0}} {
		if got := watchdogTime(c.usec, c.pid); got != c.want {
			t.Errorf("%q for %q: %v, want %v", c.usec, c.pid, got, c.want)
		}
	}
}

// TestStopEarly: asked to stop at any moment of its start, a daemon ends well, and the
// next one starts.
func TestStopEarly(t *testing.T) {
	r := newRig(t, 2, "")
	for i := range 20 {
		r.start()
		time.Sleep(time.Duration(i) * 2 * time.Millisecond) // anywhere in the start
		must(t, r.end())
	}
	r.start()
	_, err := r.dial("")
	must(t, err)
	must(t, r.end())
}

// TestWithin: what does not end is given up.
func TestWithin(t *testing.T) {
	stuck := make(chan struct{})
	if err := within(time.Millisecond, "waiting", func() error { <-stuck; return nil }); !errors.Is(err, ErrStuck) {
		t.Error(err)
	}
	close(stuck)
	if err := within(time.Minute, "waiting", func() error { return io.EOF }); err != io.EOF {
		t.Error(err)
	}
}

// TestFiles: too few open files for the clients are an error with both numbers.
func TestFiles(t *testing.T) {
	f, err := config.Parse("", nil)
	must(t, err)
	must(t, checkFiles(f))
	f.Limits.Connections = 1 << 40
	if err := checkFiles(f); err == nil || !strings.Contains(err.Error(), "open files") {
		t.Error(err)
	}
}
