package pool

import (
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport"
)

// TestSecondTry: what a first try has answered says nothing of the second, into the same
// memory; and there is no second while the transport has that.
func TestSecondTry(t *testing.T) {
	f := &flight{blocks: make([]transport.Block, 2), states: make([]blockState, 2)}
	f.blocks[0].Status, f.states[0] = transport.Done, blockState{answered: true, proven: true}
	f.blocks[1].Status = transport.Late
	if f.clean() {
		t.Fatal("a second try into memory in use")
	}
	if proven, _ := f.proven(0); !proven {
		t.Error("the first try is forgotten without a second one")
	}
	f.states[1].released = true
	if !f.clean() {
		t.Fatal("no second try into memory that is free")
	}
	if proven, _ := f.proven(0); proven || len(f.outstanding()) != 2 || f.blocks[1].Status != transport.Unanswered {
		t.Errorf("left of the first try: %+v %+v", f.blocks, f.states)
	}
}
