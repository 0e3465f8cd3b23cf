package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spillway-kv/spillway/client"
	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
)

// serve is a daemon with one store: it serves until the other end of in is closed.
func (j *Job) serve(in io.Reader, out io.Writer) error {
	s, _, err := j.open()
	if err != nil {
		return err
	}
	n, err := node.New(node.Options{Stores: []*engine.Store{s}})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: j.Socket, Net: "unix"})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve(l) }()
	_, err = fmt.Fprintln(out, "ready")
	_, _ = io.Copy(io.Discard, in)
	return errors.Join(err, n.Close(context.Background()), <-served, s.Close())
}

// mounted is Transfer by a client of a daemon in another process. The CPU time is
// that of both.
func (j *Job) mounted(ctx context.Context) (sample Sample, err error) {
	dir, err := os.MkdirTemp("", "spillway-bench-")
	if err != nil {
		return sample, err
	}
	defer os.RemoveAll(dir)
	d := *j
	d.Work, d.Socket, d.Cgroup = ServeStore, filepath.Join(dir, "s"), ""
	daemon, err := startDaemon(ctx, &d)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, daemon.stop()) }()
	c, err := client.Dial(ctx, client.Options{Path: d.Socket})
	if err != nil {
		return sample, err
	}
	defer c.Close()
	ns, err := c.Namespace(ctx, j.descriptor(), "")
	if err != nil {
		return sample, err
	}
	batch := max(j.Batch, 1)
	rows, err := c.Allocate(int64(j.Depth*batch) * int64(j.BlockBytes))
	if err != nil {
		return sample, err
	}
	before := processSeconds(daemon.pid())
	sample, err = j.measure(ctx, func(worker int) (doer, error) { return j.remote(ns, rows, worker, batch), nil })
	sample.CPUSeconds += processSeconds(daemon.pid()) - before
	sample.Ops *= float64(batch)
	sample.IOPS *= float64(batch)
	return sample, err
}

// remote reads random blocks into the rows of one worker.
func (j *Job) remote(ns *client.Namespace, rows *client.Region, worker, batch int) doer {
	rng := rand.New(rand.NewPCG(j.Seed, uint64(worker)))
	blocks := make([]client.Block, batch)
	for i := range blocks {
		blocks[i].Places = []client.Place{rows.Row(worker*batch+i, j.BlockBytes)}
	}
	return func() (bool, error) {
		for i := range blocks {
			blocks[i].Key = key(rng.IntN(j.Blocks)).Bytes
		}
		for i, s := range ns.Get(blocks, client.GetOptions{NoTouch: true}).Wait().Statuses {
			if s != client.Hit {
				return true, fmt.Errorf("block %s: %v", blocks[i].Key, s)
			}
		}
		return true, nil
	}
}

// daemonProcess is a child that serves.
type daemonProcess struct {
	cmd    *exec.Cmd
	in     io.Closer
	stderr *bytes.Buffer
}

func startDaemon(ctx context.Context, j *Job) (*daemonProcess, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	d := &daemonProcess{cmd: exec.CommandContext(ctx, os.Args[0], os.Args[1:]...), stderr: new(bytes.Buffer)}
	d.cmd.Stderr = d.stderr
	in, err := d.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	d.in = in
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make([]byte, len("ready\n"))
	if _, err = in.Write(append(text, '\n')); err == nil {
		_, err = io.ReadFull(out, ready)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("daemon: %w: %s", err, bytes.TrimSpace(d.stderr.Bytes())), d.stop())
	}
	return d, nil
}

func (d *daemonProcess) pid() int { return d.cmd.Process.Pid }

func (d *daemonProcess) stop() error {
	_ = d.in.Close()
	if err := d.cmd.Wait(); err != nil {
		return fmt.Errorf("daemon: %w: %s", err, bytes.TrimSpace(d.stderr.Bytes()))
	}
	return nil
}
