package tcp

import (
	"bytes"
	"context"
	"testing"
)

// TestKeptGoes: the memory of a block that was kept until its handler came goes with its
// Receive, not with the call.
func TestKeptGoes(t *testing.T) {
	g := &guest{session: &session{calls: newQueue()}}
	in := newIncoming(&request{g: g, ctx: context.Background()}, []uint32{4})
	a := &in.blocks[0]
	a.own = []byte("kept")
	a.m = &memory{pieces: [][]byte{a.own}}
	a.got = 4
	close(a.ended)
	dst := make([]byte, 4)
	if err := in.Receive([][]byte{dst[:1], dst[1:]}); err != nil || !bytes.Equal(dst, []byte("kept")) {
		t.Fatalf("%q, %v", dst, err)
	}
	if a.own != nil || a.m != nil {
		t.Error("the memory is still there")
	}
}
