package vm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/integration/vm/wire"
)

// Command is a program to run in a machine.
type Command struct {
	Argv         []string
	Env          []string  // besides the machine's own, "NAME=value"
	Dir          string    // "/" if empty
	UID          int       // user and group; 0: the superuser
	MemlockBytes int64     // 0: no limit
	Live         io.Writer // gets the output as it comes, if not nil; called from one goroutine
}

// Result of a process that has ended.
type Result struct {
	Code   int           // exit code; 128 and the signal's number if one ended it
	Output string        // both streams
	Took   time.Duration // as the host saw it
}

// Process is a program that runs, or ran, in a machine.
type Process struct {
	m     *Machine
	id    int
	live  io.Writer
	began time.Time
	ended chan struct{} // closed when code, took and err are final

	mu      sync.Mutex
	out     bytes.Buffer
	more    chan struct{} // closed, and replaced, when out grows or the process ends
	code    int
	took    time.Duration
	err     error
	isEnded bool
}

// Start starts a program.
func (m *Machine) Start(c Command) (*Process, error) {
	p := &Process{m: m, live: c.Live, began: time.Now(), ended: make(chan struct{}), more: make(chan struct{})}
	m.mu.Lock()
	if m.processes == nil {
		m.mu.Unlock()
		return nil, m.lost()
	}
	m.last++
	p.id = m.last
	m.processes[p.id] = p
	err := m.order(wire.Order{Kind: wire.Start, ID: p.id, Argv: c.Argv, Env: c.Env, Dir: c.Dir, UID: c.UID, MemlockBytes: c.MemlockBytes})
	m.mu.Unlock()
	return p, err
}

// Run starts a program and waits for its end; if ctx ends first, it kills the program. A
// program that fails is no error: Result.Code says so.
func (m *Machine) Run(ctx context.Context, c Command) (Result, error) {
	p, err := m.Start(c)
	if err != nil {
		return Result{}, err
	}
	r, err := p.Wait(ctx)
	if ctx.Err() != nil {
		_ = p.Signal(9) // the error is there already
	}
	return r, err
}

// Shell runs a line of shell.
func (m *Machine) Shell(ctx context.Context, line string) (Result, error) {
	return m.Run(ctx, Command{Argv: []string{"/bin/sh", "-c", line}})
}

// take is called by the machine's one goroutine that hears.
func (p *Process) take(r wire.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.Kind {
	case wire.Output:
		p.out.Write(r.Output)
		if p.live != nil {
			_, _ = p.live.Write(r.Output)
		}
	case wire.Exit:
		p.code = r.Code
		p.end(nil)
	default:
		p.end(fmt.Errorf("no such process in the virtual machine: %s", r.Output))
	}
	close(p.more)
	p.more = make(chan struct{})
}

// end is called with mu.
func (p *Process) end(err error) {
	if !p.isEnded {
		p.isEnded, p.err, p.took = true, err, time.Since(p.began)
		close(p.ended)
	}
}

func (p *Process) lost(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(err)
}

// Wait waits for the end of the process, or of ctx. The result has the output so far in any
// case.
func (p *Process) Wait(ctx context.Context) (Result, error) {
	select {
	case <-p.ended:
	case <-ctx.Done():
		return Result{Code: -1, Output: p.Output(), Took: time.Since(p.began)}, fmt.Errorf("the process has not ended: %w", context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Result{Code: p.code, Output: p.out.String(), Took: p.took}, p.err
}

// Output is what the process has printed so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Says waits until the output contains text.
func (p *Process) Says(ctx context.Context, text string) error { return p.SaysTimes(ctx, text, 1) }

// SaysTimes waits until the output contains text so many times.
func (p *Process) SaysTimes(ctx context.Context, text string, times int) error {
	for {
		p.mu.Lock()
		out, more := p.out.String(), p.more
		p.mu.Unlock()
		if strings.Count(out, text) >= times {
			return nil
		}
		select {
		case <-more:
		case <-p.ended:
			if strings.Count(p.Output(), text) >= times {
				return nil
			}
			return fmt.Errorf("the process has ended and did not say %q:\n%s", text, p.Output())
		case <-ctx.Done():
			return fmt.Errorf("the process does not say %q: %w\n%s", text, context.Cause(ctx), out)
		}
	}
}

// Signal sends a signal, by its number, to the process and its children. No error if it
// has ended.
func (p *Process) Signal(number int) error {
	return p.m.order(wire.Order{Kind: wire.Signal, ID: p.id, Signal: number})
}
