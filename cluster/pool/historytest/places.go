package historytest

import (
	"bytes"
	"sync"
)

// region is memory that was given to a node for a call: a destination, or a source.
type region struct {
	of    string // the call
	bytes []byte
	src   []byte // what a source holds; nil: a destination

	mu       sync.Mutex
	answered bool
	late     bool
	released bool
	ours     bool // it is the caller's again, who has put its own bytes there
}

// places are all memory that was given to nodes.
type places struct {
	mu  sync.Mutex
	all []*region
}

func (p *places) lend(of string, memory, src []byte) *region {
	g := &region{of: of, bytes: memory, src: src}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, g)
	return g
}

// answer is called with the answer, release with the release, which may come first.
func (g *region) answer(r *runner, late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.released && !late {
		r.fail("RELEASE: memory of %s was released, and not late", g.of)
	}
	g.answered, g.late = true, late
	g.takeLocked(r)
}

func (g *region) release(r *runner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.released || g.answered && !g.late {
		r.fail("RELEASE: memory of %s was released twice, or without being late", g.of)
	}
	g.released = true
	g.takeLocked(r)
}

// takeLocked takes the memory back once nobody else has it.
func (g *region) takeLocked(r *runner) {
	if !g.answered || g.late && !g.released || g.ours {
		return
	}
	if g.src != nil && !bytes.Equal(g.bytes, g.src) {
		r.fail("SOURCE: memory of %s was written to", g.of)
	}
	g.ours = true
	for i := range g.bytes {
		g.bytes[i] = 0xee
	}
}

// settle looks at all memory at the end.
func (p *places) settle(r *runner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.all {
		g.mu.Lock()
		switch {
		case !g.ours && !g.answered:
		case !g.ours:
			r.fail("RELEASE: memory of %s was never released", g.of)
		case len(bytes.Trim(g.bytes, "\xee")) > 0:
			r.fail("MEMORY: memory of %s was written to when it was the caller's again", g.of)
		}
		g.mu.Unlock()
	}
}
