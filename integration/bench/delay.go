package main

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// delayed passes connections on, with a delay before each piece that comes back.
type delayed struct {
	listener net.Listener
	to       string
	delay    atomic.Int64 // nanoseconds
	running  sync.WaitGroup

	mu   sync.Mutex
	open []net.Conn
}

func newDelayed(to string) (*delayed, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delayed{listener: l, to: to}
	d.running.Go(d.accept)
	return d, nil
}

func (d *delayed) address() string { return d.listener.Addr().String() }

func (d *delayed) accept() {
	for {
		in, err := d.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", d.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		d.mu.Lock()
		d.open = append(d.open, in, out)
		d.mu.Unlock()
		d.running.Go(func() { d.pass(in, out, func() {}) })
		d.running.Go(func() { d.pass(out, in, func() { time.Sleep(time.Duration(d.delay.Load())) }) })
	}
}

func (d *delayed) pass(from, to net.Conn, wait func()) {
	defer to.Close()
	b := make([]byte, 1<<20)
	for {
		n, err := from.Read(b)
		if n > 0 {
			wait()
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (d *delayed) close() {
	_ = d.listener.Close()
	d.mu.Lock()
	for _, c := range d.open {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.running.Wait()
}
