package rdma

import (
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// noPair is a queue pair that takes receives and gives nothing.
type noPair struct{ fabric.QueuePair }

func (noPair) PostReceives(int) error { return nil }

// FuzzBatch has anything written to a result table, and any immediates: a block is answered
// at most once, as a record for it says, and whatever else comes is an error.
func FuzzBatch(f *testing.F) {
	r := record{request: 1, block: 0, generation: 1, status: transport.Done, before: noLine, bytes: 10}
	first := r.append(nil)
	r = record{request: 1, block: 1, generation: 1, status: transport.Miss, before: 31, bytes: 10}
	f.Add(append(first, r.append(nil)...), uint16(30), uint32(1))
	f.Add([]byte{}, uint16(31), uint32(1))
	f.Add([]byte{}, uint16(3), uint32(generationEnd))
	f.Fuzz(func(t *testing.T, table []byte, number uint16, generation uint32) {
		const lines = 32
		l := &Link{t: &Transport{}, peer: &peer{}}
		s := newSession(l)
		only := &rail{port: &port{}, pair: noPair{}, lines: make([]line, lines), table: make([]byte, lines*recordBytes), probed: true}
		for i := range lines {
			only.free = append(only.free, uint16(i))
		}
		s.rails, s.all = []*rail{only}, []*rail{only}
		s.lines, s.bytes = semaphore.NewWeighted(lines), semaphore.NewWeighted(1000)
		_ = s.lines.TryAcquire(10)
		var asked []*request
		for range 2 {
			q := &request{s: s, f: &transport.Fetching{Blocks: make([]transport.Block, 5)}, blocks: make([]placed, 5), wake: make(chan struct{}, 1), nBytes: 50}
			for i := range q.blocks {
				q.blocks[i] = placed{size: 10, offset: direct}
			}
			if !q.enter(&fetchRequest{blocks: make([]wantedBlock, 5)}) {
				t.Fatal("the session has failed")
			}
			s.running.Done()
			asked = append(asked, q)
		}
		for i := 0; i+recordBytes <= len(table) && i < len(only.table); i += recordBytes {
			copy(only.table[len(only.table)-recordBytes-i:], table[i:i+recordBytes])
		}
		var told releases
		s.mu.Lock()
		err := s.batchLocked(&told, only, immediateOf(number%(1<<lineBits), generation%(generationEnd+1)))
		s.mu.Unlock()
		open := 0
		for _, q := range asked {
			left := 0
			for i := range q.blocks {
				b := &q.blocks[i]
				if b.open {
					left++
				} else if b.answer == transport.Unanswered || only.lines[b.line].request != nil {
					t.Errorf("block %d: %+v", i, b)
				}
			}
			if left != q.open || len(q.came) != 5-left {
				t.Errorf("%d blocks are open, %d are counted, %d have come", left, q.open, len(q.came))
			}
			open += left
		}
		if len(only.free) != lines-open || only.underway != int64(10*open) || len(told) > 0 {
			t.Errorf("%d lines are free, %d blocks open, %d bytes under way; %v", len(only.free), open, only.underway, err)
		}
	})
}
