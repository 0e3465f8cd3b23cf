package member

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestFarFuture (P36): a member whose numbers are from the far future falls silent. It is
// dead in ordinary time, can be forgotten, and may come back with ordinary numbers.
func TestFarFuture(t *testing.T) {
	t.Parallel()
	all := pool(t, 2)
	f := newFake(t, "n3", labelOf("red"), nil, metaOf(t, "n3", func(m *metadata) {
		m.member.Start, m.member.FreeBytes, m.member.CapacityBytes = 1<<64-1, 1<<63-1, 1<<63-1
	}))
	if err := f.join(all[0]); err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		until(t, g.o.Name+" lists it", func() bool { return healthOf(g, "n3") == Alive })
	}
	f.list.Shutdown()
	for _, g := range all {
		until(t, g.o.Name+" finds it failed", func() bool { return healthOf(g, "n3") == Failed })
	}
	agree(t, all...)
	if _, err := all[1].Forget("n3"); err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		until(t, g.o.Name+" has forgotten it", func() bool { return len(g.Status().Members) == 1 })
	}
	back := node(t, "n3", seeds(all[1])) // with the start number 1
	agree(t, append(all, back)...)
}

// TestImmortal (P36): a member that answers every probe and knows no farewell is forgotten
// for good, in the whole pool, while it goes on answering.
func TestImmortal(t *testing.T) {
	t.Parallel()
	all := pool(t, 3, calm)
	f := newFake(t, "fake", labelOf("red"), nil, metaOf(t, "fake", nil))
	if err := f.join(all[0]); err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		until(t, g.o.Name+" lists it", func() bool { return healthOf(g, "fake") == Alive })
	}
	if _, err := all[2].Forget("fake"); err != nil {
		t.Fatal(err)
	}
	agree(t, all...)
	for _, g := range all {
		before := g.Status().Counters
		if err := f.join(g); err != nil {
			t.Fatal(err)
		}
		until(t, g.o.Name+" has turned it away", func() bool { return g.Status().Counters.Over > before.Over })
	}
	agree(t, all...)
	late := node(t, "n4", calm, seeds(all[0]))
	agree(t, append(all, late)...)
}

// TestNoTimeOfDay (P36): nothing here reads a time of day out of a clock, so that none that
// jumps can make a difference: all spans are by the monotonic one.
func TestNoTimeOfDay(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	banned := map[string]bool{"Unix": true, "UnixNano": true, "UnixMilli": true, "UnixMicro": true, "Date": true, "Round": true,
		"Truncate": true, "UTC": true, "Local": true, "In": true, "Format": true, "MarshalText": true, "AddDate": true}
	files := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files++
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && banned[s.Sel.Name] {
				t.Errorf("%s uses %s", name, s.Sel.Name)
			}
			return true
		})
	}
	if files < 10 {
		t.Errorf("only %d files looked at", files)
	}
}
