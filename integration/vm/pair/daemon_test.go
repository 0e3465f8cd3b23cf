package pair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// patience bounds everything that must happen in the end.
const patience = 2 * time.Minute

// daemon is a node of the pool, over all its starts.
type daemon struct {
	t      *testing.T
	number int // 1 or 2, as its address and link
	device int // of RDMA
	store  string
	socket string
	config string
	said   string // file

	uid     int   // that runs it, 0: the superuser
	memlock int64 // most bytes it may lock, 0: no limit

	process *exec.Cmd
	ended   chan struct{}
	err     error // after ended
}

// newDaemon makes a place for the node; store is a folder on a drive.
func newDaemon(t *testing.T, number int, store string) *daemon {
	dir, err := os.MkdirTemp("/tmp", fmt.Sprintf("n%d-", number)) // no folder of the test's, which nobody else may enter
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, number: number, device: number, store: store, socket: filepath.Join(dir, "sock"),
		config: filepath.Join(dir, "spillway.toml"), said: filepath.Join(dir, "log")}
	d.configure()
	t.Cleanup(func() {
		if d.running() {
			d.stop()
		}
		if t.Failed() {
			t.Logf("--- n%d says:\n%s", number, lastLines(d.log(), 40))
		}
		_ = os.RemoveAll(dir)
	})
	return d
}

// configure writes what it is started with.
func (d *daemon) configure() {
	d.t.Helper()
	text := fmt.Sprintf(`
[socket]
path = %q
mode = "0666"
[[store]]
dir = %q
capacity = "2500MiB"
frame_memory = "256MiB"
[limits]
patience = "60s"
[puts]
queue_time = "60s"
[pool]
id = "vm"
name = "n%d"
bind = "10.9.0.%d:7420"
seeds = ["10.9.0.1", "10.9.0.2"]
profile = "slow"
placement = "local"
get_time = "30s"
match_time = "5s"
transport = "rdma"
rdma_ports = ["rxe%d"]
`, d.socket, d.store, d.number, d.number, d.device)
	if err := os.WriteFile(d.config, []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func lastLines(s string, most int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-most):], "\n")
}

// log is what the daemon has said in all its starts.
func (d *daemon) log() string {
	text, err := os.ReadFile(d.said)
	if err != nil {
		d.t.Error(err)
	}
	return string(text)
}

func (d *daemon) start() {
	d.t.Helper()
	out, err := os.OpenFile(d.said, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		d.t.Fatal(err)
	}
	defer out.Close()
	argv := []string{program, "serve", "--config", d.config}
	if d.uid != 0 || d.memlock != 0 {
		argv = append([]string{"/init", "limited", "-uid", strconv.Itoa(d.uid), "-memlock", strconv.FormatInt(d.memlock, 10)}, argv...)
	}
	d.process = exec.Command(argv[0], argv[1:]...)
	d.process.Stdout, d.process.Stderr = out, out
	if err := d.process.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) { // ends with the daemon, which stop or kill end
		d.err = process.Wait()
		close(ended)
	}(d.process, d.ended)
}

func (d *daemon) running() bool {
	if d.process == nil {
		return false
	}
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// kill ends the daemon without a warning.
func (d *daemon) kill() {
	_ = d.process.Process.Kill()
	<-d.ended
}

func (d *daemon) stop() {
	d.t.Helper()
	_ = d.process.Process.Signal(os.Interrupt)
	select {
	case <-d.ended:
		if d.err != nil {
			d.t.Errorf("n%d ended with %v", d.number, d.err)
		}
	case <-time.After(patience):
		_ = d.process.Process.Signal(syscall.SIGQUIT) // says what its goroutines do
		<-d.ended
		d.t.Errorf("n%d did not stop within %v:\n%s", d.number, patience, lastLines(d.log(), 400))
	}
}

func (d *daemon) freeze() { _ = d.process.Process.Signal(syscall.SIGSTOP) }
func (d *daemon) thaw()   { _ = d.process.Process.Signal(syscall.SIGCONT) }

func (d *daemon) dial() *client.Client {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Path: d.socket, RetryMax: 50 * time.Millisecond})
	if err != nil {
		d.t.Fatalf("n%d: %v", d.number, err)
	}
	return c
}

// stats decodes what the daemon says of itself.
func (d *daemon) stats(into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !d.running() {
		return fmt.Errorf("n%d has ended: %w", d.number, d.err)
	}
	c, err := client.Dial(ctx, client.Options{Path: d.socket})
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// way is how blocks of the other node come to this one.
func (d *daemon) way() (transport.Way, error) {
	var state struct {
		Pool struct {
			Peers []struct {
				Name           string
				Member, Usable bool
				Way            transport.Way
			}
		}
	}
	if err := d.stats(&state); err != nil {
		return transport.Way{}, err
	}
	for _, p := range state.Pool.Peers {
		if p.Name != fmt.Sprint("n", d.number) && p.Member && p.Usable {
			return p.Way, nil
		}
	}
	return transport.Way{}, errors.New("the other node is no usable member")
}

// eventually waits until f finds nothing wrong any more.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(100 * time.Millisecond) {
		if err = f(); err == nil {
			t.Logf("%s after %v", what, time.Since(began).Round(100*time.Millisecond))
			return
		}
	}
	t.Fatalf("%s: not after %v: %v", what, patience, err)
}

// travels waits until blocks come to all of these daemons by the way of this name.
func travels(t *testing.T, name string, daemons ...*daemon) {
	t.Helper()
	eventually(t, "blocks travel by "+name, func() error {
		for _, d := range daemons {
			w, err := d.way()
			if err == nil && w.Name != name {
				err = fmt.Errorf("blocks come to n%d by %s: %s", d.number, w.Name, w.Why)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// mountDrive mounts the first drive.
func mountDrive(t *testing.T, dir string) string {
	t.Helper()
	mount(t, "/dev/nvme0n1", dir)
	return dir
}

func mount(t *testing.T, device, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(device, dir, "ext4", 0, ""); err != nil {
		t.Fatalf("mount of %s: %v", device, err)
	}
	t.Cleanup(func() { // the kernel closes the files of a ring a little after its process has ended
		eventually(t, "unmounted "+dir, func() error { return syscall.Unmount(dir, 0) })
	})
}

// drives mounts the two drives and gives a folder on each for this test.
func drives(t *testing.T) (folders [2]string) {
	t.Helper()
	for i := range folders {
		dir := fmt.Sprintf("/mnt/%d", i+1)
		mount(t, fmt.Sprintf("/dev/nvme%dn1", i), dir)
		folders[i] = filepath.Join(dir, t.Name())
		if err := errors.Join(os.RemoveAll(folders[i]), os.Mkdir(folders[i], 0o777), os.Chmod(folders[i], 0o777)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(folders[i]) })
		folders[i] += "/store"
	}
	return folders
}

// newPair makes two daemons.
func newPair(t *testing.T) (one, two *daemon) {
	stores := drives(t)
	return newDaemon(t, 1, stores[0]), newDaemon(t, 2, stores[1])
}
