package arena

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine"
)

// pins is a Registrar that remembers; it refuses the failAt-th piece.
type pins struct {
	log    strings.Builder
	n      int
	failAt int
}

func (p *pins) Register(mem []byte) (func(), error) {
	p.n++
	n := p.n
	if n == p.failAt {
		return nil, errors.New("refused")
	}
	fmt.Fprintf(&p.log, "+%d:%d ", n, len(mem)>>20)
	return func() { fmt.Fprintf(&p.log, "-%d ", n) }, nil
}

func TestRegister(t *testing.T) {
	mem := make([]byte, 3<<30) // never touched
	for _, c := range []struct {
		piece  int64
		failAt int
		want   string
	}{
		{UringPieceBytes, 0, "+1:1024 +2:1024 +3:1024 -3 -2 -1 "},
		{CUDAPieceBytes, 0, "+1:3072 -1 "},
		{2 << 30, 0, "+1:2048 +2:1024 -2 -1 "},
		{UringPieceBytes, 3, "+1:1024 +2:1024 -2 -1 "},
		{UringPieceBytes, 1, ""},
	} {
		p := &pins{failAt: c.failAt}
		var all registrations
		release, err := all.add(mem, p, c.piece)
		if (err != nil) != (c.failAt > 0) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			release()
			release()
		}
		all.close()
		if got := p.log.String(); got != c.want || len(all.live) != 0 {
			t.Errorf("%+v: %q", c, got)
		}
	}
	var all registrations
	for _, piece := range []int64{0, -1 << 30, 4096, 3 << 29} {
		if _, err := all.add(mem, &pins{}, piece); !errors.Is(err, ErrSize) {
			t.Errorf("pieces of %d: %v", piece, err)
		}
	}
	if _, err := all.add(mem, RegistrarFunc(func([]byte) (func(), error) { return nil, nil }), 1<<30); err == nil {
		t.Error("no release, no error")
	}
	p := &pins{}
	if _, err := all.add(mem[:1<<20], p, 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := all.add(mem[:2<<20], p, 1<<30); err != nil {
		t.Fatal(err)
	}
	all.close()
	if got := p.log.String(); got != "+1:1 +2:2 -2 -1 " {
		t.Errorf("got %q", got)
	}
	if _, err := all.add(mem, p, 1<<30); err != ErrClosed {
		t.Errorf("got %v", err)
	}
}

// TestStore: blocks go to and from a real store through frames of an arena that
// is registered with it.
func TestStore(t *testing.T) {
	a := small(t, 8<<20)
	s, err := engine.Open(engine.Options{Dir: t.TempDir(), CapacityBytes: 256 << 20, AnyFileSystem: true, BufferedIO: true})
	if err != nil {
		t.Fatal(err)
	}
	release, err := a.Register(RegistrarFunc(s.RegisterMemory), UringPieceBytes)
	if err != nil {
		t.Logf("not registered: %v", err) // psync, or a small limit of locked memory
		release = func() {}
	}
	ns, err := s.Namespace(engine.Descriptor{Name: "n", BlockBytes: 320 << 10})
	if err != nil {
		t.Fatal(err)
	}
	src, dst := get(t, a, 320<<10), get(t, a, 320<<10)
	for i := range src.Bytes() {
		src.Bytes()[i] = byte(i * 7)
	}
	clear(dst.Bytes())
	key := engine.Key{Bytes: []byte("k")}
	puts := []engine.PutItem{{Key: key, Src: [][]byte{src.Bytes()}}}
	gets := []engine.GetItem{{Key: key, Dst: [][]byte{dst.Bytes()}}}
	if err := errors.Join(ns.Put(puts, engine.PutOptions{}), ns.Get(gets, engine.GetOptions{})); err != nil || gets[0].Status != engine.Hit {
		t.Fatalf("%v, %v %v", err, gets[0].Status, gets[0].Err)
	}
	if string(src.Bytes()) != string(dst.Bytes()) {
		t.Error("other bytes")
	}
	src.Release()
	dst.Release()
	release()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
