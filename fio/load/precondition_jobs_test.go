package load

import (
	"testing"

	"github.com/spillway-kv/spillway/fio/job"
)

func TestPreconditionJobs(t *testing.T) {
	read, write := plain(true, 100, 4*kib), plain(true, 0, 2<<20)
	read.Name, write.Name, read.Filenames, write.Filenames = "r", "w", []string{"f"}, []string{"g"}
	write.Index, write.Group, write.Phase, read.WaitFor, write.WaitFor = 2, 1, 1, -1, 0
	again, store := *read, *plain(true, 100, 4*kib)
	again.Index, store.Index, store.Engine = 1, 3, job.EngineStore
	all := PreconditionJobs([]job.Job{*read, again, *write, store})
	if len(all) != 6 {
		t.Fatalf("%d jobs", len(all))
	}
	for i, j := range all {
		if j.Index != i || j.Precondition != (i < 2) || (j.Phase == 0) != (i < 2) {
			t.Errorf("job %d: %+v", i, j)
		}
	}
	if all[4].WaitFor != 2 || all[4].Group != 3 || all[2].WaitFor != -1 {
		t.Errorf("%+v", all[4])
	}
	for i, want := range []int64{4 * kib, 2 << 20} {
		w, err := New(&all[i], Config{SpaceBytes: 64 << 20})
		if err != nil || w.Precondition == nil {
			t.Fatal(err)
		}
		if c := w.Precondition.config; c.BlockBytes != want || c.FillBytes != 1<<20 {
			t.Errorf("%+v", c)
		}
		if most := all[i].Blocks[Write].MaxBytes; most < want || most < 1<<20 {
			t.Errorf("writes of up to %d bytes", most)
		}
	}
	jobs := []job.Job{store}
	if got := PreconditionJobs(jobs); len(got) != 1 {
		t.Errorf("a store is preconditioned: %d jobs", len(got))
	}
}
