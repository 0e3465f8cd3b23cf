package page

import (
	"slices"
	"testing"

	"github.com/spillway-kv/spillway/fio/result"
)

// TestHeadlineOfSweep: a sweep is named by its job and its depths, not by a job for each depth;
// without a sweep a name that looks like one stays whole.
func TestHeadlineOfSweep(t *testing.T) {
	d := &result.Document{Jobs: []result.Job{{Name: "read iodepth=1"}, {Name: "read iodepth=2"}}, Spillway: &result.Spillway{Sweep: sampleSweep(12e6)}}
	if title, subtitle := headline(d); title != "read" || !slices.Contains(subtitle, "queue depths 1 to 128") {
		t.Errorf("%q, %q", title, subtitle)
	}
	d.Spillway.Sweep = nil
	if title, _ := headline(d); title != "read iodepth=1, read iodepth=2" {
		t.Errorf("%q", title)
	}
}
