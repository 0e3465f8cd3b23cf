package pair

import (
	"os"
	"strings"
	"testing"
)

// sentence is how a daemon begins to say that it has no RDMA though it should.
const sentence = "blocks of other nodes come by tcp, not by rdma: "

// nobody is a user without rights.
const nobody = 65534

// TestRights runs one of the daemons as a user without rights: with little memory that it
// may lock it says so once, and blocks come by TCP; with enough, by RDMA.
func TestRights(t *testing.T) {
	one, two := newPair(t)
	one.start()
	two.uid, two.memlock = nobody, 8<<20
	two.start()
	travels(t, "tcp", one, two)
	s := space{"rights", 256 << 10, 32}
	s.put(t, one)
	readPlain(t, s, two)
	if said := strings.Count(two.log(), sentence); said != 1 {
		t.Errorf("said %d times why there is no RDMA", said)
	}
	for line := range strings.Lines(two.log()) {
		if _, why, ok := strings.Cut(line, sentence); ok {
			t.Logf("it says: %s", why)
			if !strings.Contains(why, "locked memory") && !strings.Contains(why, "memlock") {
				t.Error("the reason does not tell of the limit on locked memory")
			}
		}
	}
	two.stop()

	two.memlock = 2 << 30
	two.start()
	travels(t, "rdma", one, two)
	readAll(t, s, two, s.blocks)
}

// TestNoLibrary starts a daemon where there is no libibverbs: it says so once, and blocks
// come by TCP.
func TestNoLibrary(t *testing.T) {
	one, two := newPair(t)
	one.start()
	const library = "/lib/x86_64-linux-gnu/libibverbs.so.1"
	if err := os.Rename(library, library+".away"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Rename(library+".away", library); err != nil {
			t.Error(err)
		}
	}()
	two.start()
	travels(t, "tcp", one, two)
	s := space{"library", 256 << 10, 32}
	s.put(t, one)
	readPlain(t, s, two)
	if said := strings.Count(two.log(), sentence); said != 1 {
		t.Errorf("said %d times why there is no RDMA", said)
	}
}
