package rdma_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// realPlace is memory of a worker where blocks come.
type realPlace struct {
	all []byte

	mu   sync.Mutex
	lent bool
}

var realPattern = bytes.Repeat([]byte{realSpoilt}, 64<<10)

func realSpoil(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, realPattern):]
	}
}

func (p *realPlace) spoil() { realSpoil(p.all) }

func (p *realPlace) isSpoilt() bool {
	for b := p.all; len(b) > 0; b = b[min(len(b), len(realPattern)):] {
		if !bytes.Equal(b[:min(len(b), len(realPattern))], realPattern[:min(len(b), len(realPattern))]) {
			return false
		}
	}
	return true
}

// back makes the place the worker's again.
func (p *realPlace) back() {
	p.spoil()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lent = false
}

func (p *realPlace) isLent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lent
}

// realFill makes the bytes of a block.
func realFill(b []byte, id uint64) {
	z := id*0x9e3779b97f4a7c15 | 1
	for ; len(b) >= 8; b = b[8:] {
		z += 0x9e3779b97f4a7c15
		binary.LittleEndian.PutUint64(b, z^z>>29)
	}
	for i := range b {
		b[i] = byte(id)
	}
}

// realWorker fetches, one fetch after the other.
type realWorker struct {
	r      *realRun
	rng    *rand.Rand
	number uint64
	places []*realPlace
	last   uint64
	want   [realPlaceBytes]byte
}

func (w *realWorker) work(ctx context.Context) {
	for ctx.Err() == nil {
		var places []*realPlace
		for _, i := range w.rng.Perm(len(w.places))[:1+w.rng.IntN(4)] {
			if p := w.places[i]; !p.isLent() {
				if !p.isSpoilt() {
					w.r.fault("memory changed after it had been let go of")
					p.spoil() // and on
				}
				p.lent = true
				places = append(places, p)
			}
		}
		if len(places) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		w.fetch(places)
	}
}

// realAsk is a fetch of a worker.
type realAsk struct {
	w      *realWorker
	places []*realPlace
	ids    []uint64
	f      transport.Fetching
	ctx    context.Context
	cancel context.CancelFunc
	after  int // arrivals until it is given up; 0: it is not
}

func (w *realWorker) fetch(places []*realPlace) {
	a := &realAsk{w: w, places: places}
	var body []byte
	for _, p := range places {
		w.last++
		id, nBytes := w.number<<32|w.last, 1+w.rng.IntN(realPlaceBytes)
		if w.rng.IntN(3) == 0 {
			nBytes = 1 + w.rng.IntN(9000)
		}
		dst := [][]byte{p.all[:nBytes/2], p.all[nBytes/2 : nBytes]}
		a.ids, a.f.Blocks = append(a.ids, id), append(a.f.Blocks, transport.Block{Dst: dst})
		body = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(body, id), uint32(nBytes))
	}
	wait := realPatience
	switch w.rng.IntN(3) {
	case 0:
		wait = time.Duration(w.rng.IntN(30_000)) * time.Microsecond
	case 1:
		a.after = 1 + w.rng.IntN(len(places))
	}
	a.ctx, a.cancel = context.WithTimeout(context.Background(), wait)
	defer a.cancel()
	a.f.Arrived, a.f.Released = a.arrived, a.released
	answer, err := (*w.r.link.Load()).Fetch(a.ctx, 0x31, body, &a.f)
	switch {
	case err == nil && string(answer) != "all":
		w.r.fault("the answer is %q", answer)
	case err == nil, errors.Is(err, transport.ErrLost):
	case a.ctx.Err() == nil || !errors.Is(err, a.ctx.Err()):
		w.r.fault("a fetch whose context says %v: %v", a.ctx.Err(), err)
	case wait == realPatience && errors.Is(err, context.DeadlineExceeded):
		w.r.fault("a fetch took longer than %v", wait)
	}
	a.settle()
}

func (a *realAsk) arrived(i int) {
	b := &a.f.Blocks[i]
	if b.Status == transport.Done {
		at := 0
		want := a.w.want[:len(b.Dst[0])+len(b.Dst[1])]
		realFill(want, a.ids[i])
		for _, p := range b.Dst {
			if !bytes.Equal(p, want[at:at+len(p)]) {
				a.w.r.fault("wrong bytes of block %d, of %d", i, len(want))
			}
			at += len(p)
		}
		if b.Checksum != ^a.ids[i] {
			a.w.r.fault("wrong checksum of block %d", i)
		}
	}
	a.places[i].back()
	if a.after--; a.after == 0 {
		a.cancel()
	}
}

func (a *realAsk) released(i int) {
	if a.f.Blocks[i].Status != transport.Late {
		a.w.r.fault("a block is released with status %d", a.f.Blocks[i].Status)
	}
	a.places[i].back()
}

// settle counts how blocks ended.
func (a *realAsk) settle() {
	r := a.w.r
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range a.f.Blocks {
		switch a.f.Blocks[i].Status {
		case transport.Done:
			r.figures.done++
		case transport.Late:
			r.figures.late++
		case transport.Lost:
			r.figures.lost++
			a.places[i].back()
		default:
			r.figures.refused++
		}
	}
}

// finish waits for all memory, and looks at it.
func (w *realWorker) finish() {
	for _, p := range w.places {
		for began := time.Now(); p.isLent(); time.Sleep(time.Millisecond) {
			if time.Since(began) > realPatience {
				w.r.fault("late memory is not released")
				return
			}
		}
		if !p.isSpoilt() {
			w.r.fault("memory changed after it had been let go of")
		}
	}
}
