package config

import (
	"slices"
	"testing"
)

// TestExplain: the budget is said in bytes a second, a day and at once, and how long the
// drive lasts with it; without any there is nothing to say.
func TestExplain(t *testing.T) {
	if lines := parse(t, smallest).Explain(); len(lines) != 0 {
		t.Errorf("%q", lines)
	}
	f := parse(t, `
[[store]]
dir = "/a"
capacity = "1TiB"
endurance = "600TiB"
[[store]]
dir = "/b"
[admission]
drive_writes_per_day = 0.5
write_rate = "128MiB"
[[namespace]]
name = "n"
admit = "second"
`)
	want := []string{
		`admission: in namespaces ["n"] a block is stored when it is put for the second time`,
		"store /a: 128 MiB a second over time (10.55 TiB a day), 1.25 GiB at once",
		"store /a: written so, it lasts 57 days",
		"store /a: 6.068 MiB a second over time (512 GiB a day), 21.33 GiB at once",
		"store /a: written so, it lasts 1200 days",
		"store /b: 128 MiB a second over time (10.55 TiB a day), 1.25 GiB at once",
		"store /b: 0.5 drive writes per day of the capacity that it has",
	}
	if lines := f.Explain(); !slices.Equal(lines, want) {
		t.Errorf("%q\nwant\n%q", lines, want)
	}
	f.Admission.Admit, f.Namespaces[0].Admit = "second", "all"
	if lines := f.Explain(); lines[0] != `admission: in all namespaces but ["n"] a block is stored when it is put for the second time` {
		t.Errorf("%q", lines[0])
	}
}
