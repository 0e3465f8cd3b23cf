package pool_test

import (
	"bytes"
	"slices"
	"testing/synctest"
	"time"

	netsim "github.com/spillway-kv/spillway/cluster/transport/sim"
	"github.com/spillway-kv/spillway/engine"
)

// payload damages this part of all blocks.
func payload(damaged float64) netsim.Payload { return netsim.Payload{Damaged: damaged} }

// slow is a node that sends and receives so many bytes a second.
func slow(bytesPerSecond int64) netsim.Shape {
	return netsim.Shape{DelayMin: 50 * time.Microsecond, DelayMax: 200 * time.Microsecond, BytesPerSecond: bytesPerSecond}
}

// delayed is a node whose messages take so long, one way.
func delayed(d time.Duration) netsim.Shape { return netsim.Shape{DelayMin: d, DelayMax: d} }

// closedIn is a channel that closes in a while.
func closedIn(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}

// watch waits until nothing is under way any more, and wants the memory of every block
// that is not the pool's to stay as its owner leaves it.
func (l *load) watch() {
	l.h.t.Helper()
	mine := bytes.Repeat([]byte{0xee}, blockBytes)
	owned := map[int]bool{}
	for range 100 {
		for i := range l.items {
			l.mu.Lock()
			free := l.items[i].Status != engine.Late || l.released[i] > 0
			l.mu.Unlock()
			if free && !owned[i] {
				owned[i] = true
				at := 0
				for _, piece := range l.items[i].Dst {
					at += copy(piece, mine[at:])
				}
			}
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		for i := range owned {
			if !slices.Equal(l.bytes(i), mine) {
				l.h.t.Fatalf("block %d was written to when it was not the pool's", l.numbers[i])
			}
		}
	}
}
