// Package replay drives a store with a request trace: it looks a request's
// whole chain up, reads the blocks that are there and compares every byte, then
// puts the chain. Each id of the trace is one block whose bytes derive from the
// id, so a wrong byte cannot hide.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/trace"
)

// NamespaceName is the human's name of the namespaces that replays use, one
// for each block size.
const NamespaceName = "replay"

// ErrInterrupted: the context ended before the trace did.
var ErrInterrupted = errors.New("interrupted")

// Descriptor is the namespace of replays with blocks of this size.
func Descriptor(blockBytes int) engine.Descriptor {
	return engine.Descriptor{
		Name:           NamespaceName,
		TokensPerBlock: trace.TokensPerBlock,
		BlockBytes:     blockBytes,
		Extra:          map[string]string{"content": ContentName},
	}
}

// Config says how to replay.
type Config struct {
	// Requests ends the run after that many; 0 means with the trace.
	Requests int
	// For ends the run after that time; 0 means with the trace.
	For time.Duration
	// Speed is how many times faster than recorded requests start; a request
	// that is due while an earlier one runs starts late. 0 means at once.
	Speed float64
	// Depth is how many blocks are read at once. Default 16.
	Depth int
	// BufferBytes bounds the memory for block data; one block at least. A longer
	// chain is read and put in parts, the parts with the tail first, so that the
	// eviction order is the same. Default 128 MiB.
	BufferBytes int
	Durability  engine.Durability
	// Progress, if set, is called after each request, on Run's goroutine.
	Progress func(*Result)
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

const (
	depthDefault       = 16
	bufferBytesDefault = 128 << 20
)

// Run replays src into ns of store. The result is valid, for the requests done
// so far, even with an error: of the trace (*trace.Error), of a call of the
// store, engine.ErrReadOnly or engine.ErrSick when the store stopped taking
// writes, or ErrInterrupted. Damage is no error: it is counted in the result.
func Run(ctx context.Context, store *engine.Store, ns *engine.Namespace, src trace.Source, c Config) (*Result, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Depth <= 0 {
		c.Depth = depthDefault
	}
	if c.BufferBytes <= 0 {
		c.BufferBytes = bufferBytesDefault
	}
	blockBytes := ns.Descriptor().BlockBytes
	r := &runner{
		ns:      ns,
		c:       c,
		buffers: newBuffers(blockBytes, max(1, c.BufferBytes/blockBytes)),
		result:  &Result{Depth: c.Depth, BlockBytes: blockBytes},
	}
	before := store.Stat()
	r.started = c.Now()
	err := r.all(ctx, src)
	r.result.finish(before, store.Stat(), ns.Stat(), c.Now().Sub(r.started))
	return r.result, err
}

// runner is one run; all of it belongs to the goroutine of Run, except what
// readers are given (see read.go).
type runner struct {
	ns      *engine.Namespace
	c       Config
	started time.Time
	buffers *buffers
	result  *Result

	keys     []engine.Key
	keyBytes []byte
	puts     []engine.PutItem
	reads    []read
}

func (r *runner) all(ctx context.Context, src trace.Source) error {
	for r.c.Requests == 0 || r.result.Requests < uint64(r.c.Requests) {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		if r.timeIsUp() {
			return nil
		}
		q, err := src.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.await(ctx, q); err != nil {
			return err
		}
		if r.timeIsUp() {
			return nil
		}
		if err := r.request(q); err != nil {
			return fmt.Errorf("request %d of the trace: %w", r.result.Requests+1, err)
		}
		r.result.Requests++
		r.result.TraceMS = q.TimestampMS
		r.result.ElapsedNS = r.c.Now().Sub(r.started).Nanoseconds()
		if r.c.Progress != nil {
			r.c.Progress(r.result)
		}
	}
	return nil
}

func (r *runner) timeIsUp() bool {
	return r.c.For > 0 && r.c.Now().Sub(r.started) >= r.c.For
}

// await waits until the request is due, or the time is up.
func (r *runner) await(ctx context.Context, q trace.Request) error {
	if r.c.Speed <= 0 {
		return nil
	}
	due := time.Duration(float64(q.TimestampMS) / r.c.Speed * float64(time.Millisecond))
	wait := due - r.c.Now().Sub(r.started)
	if wait <= 0 {
		r.result.LagMaxNS = max(r.result.LagMaxNS, -wait.Nanoseconds())
		return nil
	}
	if r.c.For > 0 {
		wait = min(wait, r.c.For-r.c.Now().Sub(r.started))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ErrInterrupted
	}
}

// request looks the whole chain up, reads what is there, then puts it all.
func (r *runner) request(q trace.Request) error {
	keys := r.keysOf(q.HashIDs)
	if len(keys) == 0 {
		return nil
	}
	found, err := r.ns.Match(keys, engine.MatchOptions{})
	if err != nil {
		return err
	}
	r.result.BlockRefs += uint64(len(keys))
	r.result.PrefixHits += uint64(found.Prefix)
	for _, present := range found.Present {
		if present {
			r.result.Hits++
		}
	}
	part := r.buffers.blocksMax
	for low := 0; low < len(keys); low += part {
		high := min(low+part, len(keys))
		if err := r.read(keys[low:high], q.HashIDs[low:high], found.Present[low:high]); err != nil {
			return err
		}
	}
	for low := (len(keys) - 1) / part * part; low >= 0; low -= part {
		high := min(low+part, len(keys))
		o := engine.PutOptions{Durability: r.c.Durability, EndDepth: uint32(len(keys) - 1)}
		if high < len(keys) {
			o.Before = keys[high]
		}
		o.Partial = high == len(keys) && q.InputLength%trace.TokensPerBlock != 0 && (q.InputLength-1)/trace.TokensPerBlock+1 == len(keys)
		if err := r.put(keys[low:high], q.HashIDs[low:high], low, o); err != nil {
			return err
		}
	}
	return nil
}

// put stores one part of a chain, whose first block has this depth.
func (r *runner) put(keys []engine.Key, ids []uint64, depth int, o engine.PutOptions) error {
	r.puts = r.puts[:0]
	for i, id := range ids {
		r.puts = append(r.puts, engine.PutItem{
			Key: keys[i], Src: r.buffers.with(i, id), Depth: uint32(depth + i),
		})
	}
	began := r.c.Now()
	err := r.ns.Put(r.puts, o)
	r.result.WriteNS += r.c.Now().Sub(began).Nanoseconds()
	if err != nil {
		return err
	}
	for i := range r.puts {
		switch p := &r.puts[i]; p.Status {
		case engine.Stored:
			r.result.Writes++
		case engine.Present:
			r.result.Present++
		default:
			r.result.Dropped++
			if r.result.DropCause == nil {
				r.result.DropCause = p.Err
			}
			if errors.Is(p.Err, engine.ErrReadOnly) || errors.Is(p.Err, engine.ErrSick) {
				return p.Err
			}
		}
	}
	return nil
}
