package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/integration/vm/wire"
)

const (
	bootTime = 2 * time.Minute  // bounds the start of a machine
	endTime  = 10 * time.Second // bounds the end of qemu, after its machine has ended
)

// Options of a machine.
type Options struct {
	MemoryMiB  int      // 2048 if 0
	Processors int      // 2 if 0
	Drives     []Drive  // NVMe, in order
	Role       int      // 1 or 2: one of two machines, else 0
	Network    string   // with a role: qemu's options of a socket network, such as "connect=127.0.0.1:5555"
	Arguments  []string // more for qemu
}

// Drive is an NVMe drive whose bytes are a file of the host.
type Drive struct {
	Path string
	// FailSector, if not 0, is a sector of 512 bytes that cannot be read.
	FailSector int64
}

// Machine is a virtual machine that is up. Methods may be called from many goroutines.
type Machine struct {
	SetUp string // what its set-up said

	dir     string
	qemu    *exec.Cmd
	conn    net.Conn
	console *tail

	ready chan wire.Report // one report, of the set-up
	off   chan struct{}    // closed when the machine has said that it goes
	gone  chan struct{}    // closed when qemu has ended
	group sync.WaitGroup   // hear and the wait for qemu

	mu        sync.Mutex
	processes map[int]*Process
	last      int
}

// Boot starts a machine. The caller ends it with Close, whatever happens.
func Boot(ctx context.Context, image *Image, o Options) (*Machine, error) {
	name, err := lookPath("qemu-system-x86_64")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "vm") // a short path: sockets allow no long ones
	if err != nil {
		return nil, err
	}
	args, err := arguments(dir, image, o)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	m := &Machine{
		dir: dir, qemu: exec.Command(name, args...), console: &tail{},
		ready: make(chan wire.Report, 1), off: make(chan struct{}), gone: make(chan struct{}),
		processes: map[int]*Process{},
	}
	if err := m.boot(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Machine) boot(ctx context.Context) error {
	listener, err := net.Listen("unix", filepath.Join(m.dir, "port"))
	if err != nil {
		close(m.gone)
		return err
	}
	defer listener.Close()
	m.qemu.Stdout, m.qemu.Stderr = m.console, m.console
	diesWithParent(m.qemu)
	if err := m.qemu.Start(); err != nil {
		close(m.gone)
		return err
	}
	m.group.Go(func() {
		_ = m.qemu.Wait() // killed or not, gone it is
		close(m.gone)
		listener.Close()
	})
	if m.conn, err = listener.Accept(); err != nil {
		return m.lost()
	}
	m.group.Go(m.hear)
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	select {
	case r := <-m.ready:
		m.SetUp = string(r.Output)
		if r.Kind != wire.Ready {
			return fmt.Errorf("%w: %s\n%s", ErrGone, r.Output, m.console)
		}
		return nil
	case <-m.gone:
		return m.lost()
	case <-ctx.Done():
		return fmt.Errorf("%w: not up: %w\n%s", ErrGone, context.Cause(ctx), m.console)
	}
}

// lost is ErrGone with what is known of it, when the machine's end has been noticed: in a
// moment qemu has ended, and all of its console is there.
func (m *Machine) lost() error {
	select {
	case <-m.gone:
	case <-time.After(endTime):
	}
	console := m.console.String()
	if strings.Contains(console, hungText) {
		return fmt.Errorf("%w: %w\n%s", ErrGone, ErrHung, console)
	}
	return fmt.Errorf("%w\n%s", ErrGone, console)
}

// hear takes reports until the machine is gone, and ends all its processes then.
func (m *Machine) hear() {
	for reports := json.NewDecoder(bufio.NewReader(m.conn)); ; {
		var r wire.Report
		if err := reports.Decode(&r); err != nil {
			break
		}
		switch {
		case r.Kind == wire.Off:
			close(m.off)
		case r.ID == 0:
			m.ready <- r
		default:
			m.mu.Lock()
			p := m.processes[r.ID]
			m.mu.Unlock()
			p.take(r)
		}
	}
	lost := m.lost()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.processes {
		p.lost(lost)
	}
	m.processes = nil
}

func (m *Machine) order(o wire.Order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := m.conn.Write(append(line, '\n')); err != nil {
		return m.lost()
	}
	return nil
}

// Console is the end of what the kernel and qemu have printed.
func (m *Machine) Console() string { return m.console.String() }

// Shutdown powers the machine off as an orderly machine does, and checks that it said so.
func (m *Machine) Shutdown(ctx context.Context) error {
	if err := m.order(wire.Order{Kind: wire.Off}); err != nil {
		return err
	}
	select {
	case <-m.gone:
	case <-ctx.Done():
		return fmt.Errorf("the virtual machine does not power off: %w\n%s", context.Cause(ctx), m.console)
	}
	select {
	case <-m.off:
		return nil
	default:
		return m.lost()
	}
}

// Kill ends the machine as a loss of power does.
func (m *Machine) Kill() {
	_ = m.qemu.Process.Kill() // it may have ended
	<-m.gone
}

// Close kills the machine if it still runs, and returns when nothing of it is left.
func (m *Machine) Close() error {
	if m.qemu.Process != nil {
		m.Kill()
	}
	if m.conn != nil {
		m.conn.Close()
	}
	m.group.Wait()
	return os.RemoveAll(m.dir)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 16 << 10

var _ io.Writer = (*tail)(nil)

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	if len(t.b) > 2*tailBytes {
		t.b = append([]byte(nil), t.b[len(t.b)-tailBytes:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return "--- end of the console:\n" + strings.ToValidUTF8(string(t.b[max(0, len(t.b)-tailBytes):]), "?")
}
