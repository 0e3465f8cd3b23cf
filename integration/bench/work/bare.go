package work

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/spillway-kv/spillway/engine/histogram"
)

// serveBare answers a number with a block of memory, over plain sockets, until the other
// end of in is closed.
func (j *Job) serveBare(in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", j.Socket)
	if err != nil {
		return err
	}
	data := make([][]byte, j.Blocks)
	for i := range data {
		data[i] = make([]byte, j.BlockBytes)
		Scramble(data[i], uint64(i))
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				var ask [8]byte
				for {
					if _, err := io.ReadFull(c, ask[:]); err != nil {
						return
					}
					if _, err := c.Write(data[binary.LittleEndian.Uint64(ask[:])%uint64(len(data))]); err != nil {
						return
					}
				}
			})
		}
	})
	_, err = fmt.Fprintln(out, "ready")
	_, _ = io.Copy(io.Discard, in)
	err = errors.Join(err, l.Close())
	running.Wait()
	return err
}

// bareRead reads blocks over plain sockets and hashes them: Connections of them, Depth
// requests under way, each with memory of its own.
func (j *Job) bareRead(ctx context.Context) (sample Sample, err error) {
	d := *j
	d.Work = ServeBare
	server, err := startDaemon(ctx, &d)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	buffers, free, err := j.buffers(nil, j.Depth)
	if err != nil {
		return sample, err
	}
	defer free()
	each := j.Depth / j.Connections
	hists, errs := make([]histogram.Histogram, j.Connections), make([]error, j.Connections)
	var running sync.WaitGroup
	used, began := cpuSeconds()+processSeconds(server.pid()), time.Now()
	for i := range j.Connections {
		c, err := net.Dial("tcp", j.Socket)
		if err != nil {
			return sample, err
		}
		running.Go(func() {
			defer c.Close()
			errs[i] = j.bareLoop(c, uint64(i), buffers[i*each:][:each], began.Add(j.Runtime), &hists[i])
		})
	}
	running.Wait()
	seconds := time.Since(began).Seconds()
	used = cpuSeconds() + processSeconds(server.pid()) - used
	for i := 1; i < len(hists); i++ {
		hists[0].Merge(&hists[i])
	}
	return sampleOf(hists[0].Snapshot(), histogram.Snapshot{}, seconds, used), errors.Join(errs...)
}

func (j *Job) bareLoop(c net.Conn, number uint64, buffers [][]byte, end time.Time, h *histogram.Histogram) error {
	asked := make([]time.Time, len(buffers))
	ask := func(slot int) error {
		asked[slot] = time.Now()
		number += 7
		_, err := c.Write(binary.LittleEndian.AppendUint64(nil, number))
		return err
	}
	for i := range buffers {
		if err := ask(i); err != nil {
			return err
		}
	}
	for slot := 0; ; slot = (slot + 1) % len(buffers) {
		if _, err := io.ReadFull(c, buffers[slot]); err != nil {
			return err
		}
		if xxh3.Hash(buffers[slot]) == 0 {
			return errors.New("the hash of a block is 0")
		}
		now := time.Now()
		h.Record(now.Sub(asked[slot]).Nanoseconds())
		if now.After(end) {
			return nil
		}
		if err := ask(slot); err != nil {
			return err
		}
	}
}
