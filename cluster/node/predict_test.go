package node

import (
	"bytes"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/prefetch"
)

// TestSeenIsBounded: requests that wait for a predictor which is busy take bounded
// memory, whatever their keys; one that is alone is always heard.
func TestSeenIsBounded(t *testing.T) {
	p := &predicting{ahead: &prefetcher{node: &Node{started: time.Now()}}, seen: make(chan seenBySpace, seenMax)}
	s := &space{number: 1, blockBytes: 4096}
	see := func(keys, keyBytes int) {
		all := make([]engine.Key, keys)
		for i := range all {
			all[i].Bytes = bytes.Repeat([]byte{'k'}, keyBytes)
		}
		p.see(prefetch.Asked, s, 1, all, 0)
	}
	see(1, seenBytesMax+1)
	if len(p.seen) != 1 || p.missed.Load() != 0 {
		t.Fatalf("one request, larger than the bound: %d wait, %d missed", len(p.seen), p.missed.Load())
	}
	see(1, 1)
	if len(p.seen) != 1 || p.missed.Load() != 1 {
		t.Fatalf("one more: %d wait, %d missed", len(p.seen), p.missed.Load())
	}
	p.seenBytes.Add(-(<-p.seen).bytes)
	for range 2 * seenMax {
		see(1000, 1000)
	}
	waiting := int64(0)
	for len(p.seen) > 0 {
		waiting += (<-p.seen).bytes
	}
	if waiting > seenBytesMax || waiting < seenBytesMax/2 || waiting != p.seenBytes.Load() {
		t.Errorf("%d bytes wait, %d counted, at most %d may", waiting, p.seenBytes.Load(), seenBytesMax)
	}
	if p.seenBytes.Store(0); p.missed.Load() < seenMax {
		t.Errorf("%d missed", p.missed.Load())
	}
	for range 2 * seenMax {
		see(1, 1)
	}
	if len(p.seen) != seenMax {
		t.Errorf("%d short ones wait, want %d", len(p.seen), seenMax)
	}
	if got := p.seenBytes.Load(); got != seenMax*(1+keyHeaderBytes) {
		t.Errorf("%d bytes counted", got)
	}
}
