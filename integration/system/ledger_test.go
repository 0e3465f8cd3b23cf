package system

import (
	"bufio"
	"fmt"
	"io"

	"github.com/spillway-kv/spillway/integration/load"
)

// place is one key of one namespace.
type place struct {
	space int
	key   uint64
}

// promise is what the store owes for one key.
type promise struct {
	may  map[uint64]bool // versions that may be there
	must bool            // one of them is there
}

// ledger follows a load program's report.
type ledger struct {
	keys   map[place]*promise
	ready  bool
	counts map[load.Kind]int
	newest uint64 // version
}

func newLedger() *ledger {
	return &ledger{keys: map[place]*promise{}, counts: map[load.Kind]int{}}
}

func (l *ledger) at(p place) *promise {
	if l.keys[p] == nil {
		l.keys[p] = &promise{may: map[uint64]bool{}}
	}
	return l.keys[p]
}

// follow reads a report to its end. The last line may be cut short: then it
// was never written whole.
func (l *ledger) follow(report io.Reader) error {
	r := bufio.NewReader(report)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := load.ParseEvent(line[:len(line)-1])
		if err != nil {
			return err
		}
		if e.Kind == load.Failure {
			return fmt.Errorf("the load program: %s", e.Text)
		}
		l.add(e)
	}
}

func (l *ledger) add(e load.Event) {
	l.counts[e.Kind]++
	l.newest = max(l.newest, e.Block.Version)
	p := l.at(place{e.Space, e.Block.Key})
	switch v := e.Block.Version; e.Kind {
	case load.Ready:
		l.ready = true
	case load.PutBegin:
		p.may[v] = true
	case load.PutDurable:
		p.may, p.must = map[uint64]bool{v: true}, true
	case load.PutRelaxed:
		// Whatever else was possible is not there; this may still be lost, unless
		// it was durable before.
		p.may = map[uint64]bool{v: true}
	case load.PutDropped:
		delete(p.may, v)
	case load.DeleteBegin:
		p.must = false
	case load.DeleteEnd:
		p.may, p.must = map[uint64]bool{}, false
	case load.DropBegin, load.DropEnd:
		for at, p := range l.keys {
			if at.space != e.Space {
				continue
			}
			p.must = false
			if e.Kind == load.DropEnd {
				p.may = map[uint64]bool{}
			}
		}
	}
}

// judge says what is wrong with finding this version, 0 for a miss, and takes
// it for the truth from here on.
func (l *ledger) judge(at place, version uint64, full bool) error {
	p := l.at(at)
	may, must := p.may, p.must
	p.may, p.must = map[uint64]bool{}, false
	if version != 0 {
		p.may[version], p.must = true, true
	}
	switch {
	case version == 0 && must && !full:
		return fmt.Errorf("key %d of namespace %d was acknowledged as durable (one of versions %v) and is gone", at.key, at.space, may)
	case version != 0 && !may[version]:
		return fmt.Errorf("key %d of namespace %d came back with version %d; deleted, dropped, or never put there (possible: %v)",
			at.key, at.space, version, may)
	}
	return nil
}
