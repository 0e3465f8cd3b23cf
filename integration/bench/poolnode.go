package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spillway-kv/spillway/client"
)

// daemons are nodes of one pool on this machine, each a process of the real binary.
type daemons struct {
	binary string
	dir    string
	seed   string // gossip address of the first
	all    []*daemon
}

// daemon is one of them.
type daemon struct {
	of     *daemons
	name   string
	bind   string // data connections
	gossip string
	text   string // its configuration, but for the pool
	cmd    *exec.Cmd
	stderr *bytes.Buffer
}

func (d *daemon) socket() string { return filepath.Join(d.of.dir, d.name+".sock") }

// settings are what daemons differ in.
type settings struct {
	capacityBytes int64
	memoryBytes   int64 // of the memory tier, which keeps all that is read; 0: none
	connections   int
}

// add makes a daemon, and does not start it.
func (p *daemons) add(name string, s settings) (*daemon, error) {
	bind, err := freePort()
	if err != nil {
		return nil, err
	}
	gossip, err := freePort()
	if err != nil {
		return nil, err
	}
	d := &daemon{of: p, name: name, bind: bind, gossip: gossip}
	if p.seed == "" {
		p.seed = gossip
	}
	d.text = fmt.Sprintf("[socket]\npath = %q\n[[store]]\ndir = %q\ncapacity = \"%dMiB\"\n", d.socket(), filepath.Join(p.dir, name), s.capacityBytes>>20)
	if s.memoryBytes > 0 {
		d.text += fmt.Sprintf("[memory]\ndram_bytes = \"%dMiB\"\nmode = \"inclusive\"\nprefetch = \"none\"\n", s.memoryBytes>>20)
	}
	d.text += "[limits]\npatience = \"30s\"\n"
	if s.connections == 0 {
		s.connections = 2
	}
	d.text += fmt.Sprintf("[pool]\nconnections = %d\n", s.connections)
	p.all = append(p.all, d)
	return d, nil
}

// freePort is an address that nobody listens at. It lies below those that the system
// gives to connections by itself, one of which might be there before us.
func freePort() (string, error) {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}

// start starts a daemon: as a node of the pool whose data address, for others, is
// advertise ("": its own), or alone.
func (d *daemon) start(ctx context.Context, pooled bool, advertise string) error {
	text := d.text
	if pooled {
		text += fmt.Sprintf("id = \"bench\"\nname = %q\nbind = %q\ngossip_bind = %q\nseeds = [%q]\nplacement = \"local\"\nmatch_time = \"5s\"\nget_time = \"20s\"\n",
			d.name, d.bind, d.gossip, d.of.seed)
		if advertise != "" {
			text += fmt.Sprintf("advertise = %q\n", advertise)
		}
	}
	file := filepath.Join(d.of.dir, d.name+".toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	d.stderr = new(bytes.Buffer)
	d.cmd = exec.CommandContext(ctx, d.of.binary, "serve", "--config", file)
	d.cmd.Stderr = d.stderr
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(os.Interrupt) }
	d.cmd.WaitDelay = time.Minute
	if err := d.cmd.Start(); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		c, err := client.Dial(waiting, client.Options{Path: d.socket()})
		if err == nil {
			c.Close()
			return nil
		}
		if waiting.Err() != nil {
			return fmt.Errorf("daemon %s: %w: %s", d.name, err, bytes.TrimSpace(d.stderr.Bytes()))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (d *daemon) pid() int { return d.cmd.Process.Pid }

func (d *daemon) stop() error {
	if d.cmd == nil || d.cmd.Process == nil {
		return nil
	}
	err := d.cmd.Process.Signal(os.Interrupt)
	if waitErr := d.cmd.Wait(); waitErr != nil {
		err = errors.Join(err, fmt.Errorf("daemon %s: %w: %s", d.name, waitErr, bytes.TrimSpace(d.stderr.Bytes())))
	}
	d.cmd = nil
	return err
}

func (p *daemons) stop() (err error) {
	for i := len(p.all) - 1; i >= 0; i-- {
		err = errors.Join(err, p.all[i].stop())
	}
	return err
}
