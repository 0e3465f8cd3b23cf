package target

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/fio/job"
	"github.com/spillway-kv/spillway/fio/load"
	"github.com/spillway-kv/spillway/fio/payload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const blockBytes = 8192

// aJob reads and writes 8 KiB blocks.
func aJob(kind job.Engine, dir string) job.Job {
	blocks := job.Blocks{MinBytes: blockBytes, MaxBytes: blockBytes, AlignBytes: blockBytes}
	return job.Job{Name: "j", NumJobs: 1, Engine: kind, Direct: true, Directory: dir, Size: job.Amount{Bytes: 1 << 20},
		Reads: true, Writes: true, Random: true, Blocks: [2]job.Blocks{blocks, blocks}, IODepth: 4, Namespaces: 1}
}

// open opens the only job of a run.
func open(t *testing.T, j job.Job, o Options) (Target, error) {
	t.Helper()
	s := NewSet([]job.Job{j}, o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	target, err := s.Open(t.Context(), &j)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	return target, err
}

// rig does one I/O after the other on a lane.
type rig struct {
	lane  Lane
	io    *IO
	ended chan struct{}
}

func newRig(t *testing.T, target Target) *rig {
	t.Helper()
	lane, err := target.Lane(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lane.Close() })
	r := &rig{lane: lane, ended: make(chan struct{}, 1)}
	if r.io, err = lane.NewIO(blockBytes, func(*IO) { r.ended <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) do(kind load.Kind, block uint64) *IO {
	r.io.Op = load.Op{Kind: kind, Block: block, Offset: int64(block) * blockBytes}
	r.io.SetBytes(blockBytes)
	r.lane.Submit([]*IO{r.io})
	<-r.ended
	return r.io
}

// TestRoundTrip: what is written comes back, on every engine and backend.
func TestRoundTrip(t *testing.T) {
	for _, e := range []job.Engine{job.EngineRaw, job.EngineStore} {
		for _, b := range []job.Backend{job.BackendURing, job.BackendPsync} {
			for _, depth := range []int{1, 4} {
				t.Run(e.String(), func(t *testing.T) {
					j := aJob(e, t.TempDir())
					j.Backend, j.IODepth = b, depth
					target, err := open(t, j, Options{})
					if err != nil {
						t.Fatal(err)
					}
					r := newRig(t, target)
					m := payload.Maker{Check: payload.Pattern}
					for block := range uint64(3) {
						r.io.SetBytes(blockBytes)
						m.Fill(r.io.Data, payload.Of(0, blockBytes, block))
						if io := r.do(load.Write, block); io.Outcome != load.OK || io.StartedAt.IsZero() {
							t.Fatalf("write: %v %v, started %v", io.Outcome, io.Err, io.StartedAt)
						}
					}
					for block := range uint64(3) {
						clear(r.io.Data)
						io := r.do(load.Read, block)
						if io.Outcome != load.OK || io.EndedAt.Before(io.StartedAt) {
							t.Fatalf("read: %v %v", io.Outcome, io.Err)
						}
						if f, _ := payload.Prove(io.Data, payload.Of(0, blockBytes, block)); f != payload.Right {
							t.Errorf("block %d: finding %d", block, f)
						}
					}
				})
			}
		}
	}
}

// TestStoreWritesAgain: a job that goes on writing goes on storing.
func TestStoreWritesAgain(t *testing.T) {
	target, err := open(t, aJob(job.EngineStore, t.TempDir()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, target)
	if io := r.do(load.Read, 7); io.Outcome != load.Miss {
		t.Errorf("a read of nothing: %v", io.Outcome)
	}
	for range 3 {
		if io := r.do(load.Write, 7); io.Outcome != load.OK {
			t.Errorf("write: %v %v", io.Outcome, io.Err)
		}
	}
	if n := target.(*storeTarget).shared.store.Stat().Counters.Stored; n != 3 {
		t.Errorf("%d blocks stored, want 3", n)
	}
}

// TestLayout: a job that only reads finds blocks that prove themselves, in a file
// without holes, and the file is used again as it is.
func TestLayout(t *testing.T) {
	j := aJob(job.EngineRaw, t.TempDir())
	j.Writes = false
	written := int64(0)
	o := Options{Progress: func(_ string, done, total int64) { written = done }}
	target, err := open(t, j, o)
	if err != nil {
		t.Fatal(err)
	}
	if written != 1<<20 {
		t.Errorf("%d bytes laid out", written)
	}
	r := newRig(t, target)
	for block := range uint64(128) {
		io := r.do(load.Read, block)
		if f, _ := payload.Prove(io.Data, payload.At(io.Offset)); f != payload.Right {
			t.Fatalf("block %d: finding %d (%v)", block, f, io.Err)
		}
	}
	if io := r.do(load.Read, 128); io.Outcome != load.Failed {
		t.Errorf("past the range: %v", io.Outcome)
	}
	written = 0
	if _, err := open(t, j, o); err != nil || written != 0 {
		t.Errorf("the second time: %v, %d bytes laid out", err, written)
	}
}

// tree lists what is below dir, with sizes.
func tree(t *testing.T, dir string) string {
	var b bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			info, _ := d.Info()
			b.WriteString(path + info.ModTime().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestRefused: what is missing or holds something else is refused, and nothing is
// made or changed.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign")
	storeDir, otherDir := filepath.Join(dir, "store"), filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(foreign, make([]byte, 2<<20), 0o600), os.Mkdir(otherDir, 0o700),
		os.WriteFile(filepath.Join(otherDir, "thesis"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s, err := engine.Open(engine.Options{Dir: storeDir, CapacityBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Namespace(engine.Descriptor{Name: "llama", BlockBytes: 4096}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	for name, c := range map[string]struct {
		change func(j *job.Job)
		want   error
	}{
		"a missing file":             {func(j *job.Job) { j.Writes, j.Filenames = false, []string{"missing"} }, fs.ErrNotExist},
		"a missing folder":           {func(j *job.Job) { j.Directory = filepath.Join(dir, "no", "where") }, fs.ErrNotExist},
		"a foreign file, written":    {func(j *job.Job) { j.Filenames = []string{foreign} }, ErrForeign},
		"a foreign file, too short":  {func(j *job.Job) { j.Writes, j.Filenames, j.Size.Bytes = false, []string{foreign}, 4<<20 }, ErrJob},
		"a file without size":        {func(j *job.Job) { j.Size.Bytes = 0 }, ErrJob},
		"files in a store":           {func(j *job.Job) { j.Directory = storeDir }, ErrForeign},
		"an odd block size":          {func(j *job.Job) { j.Filenames, j.Writes, j.Blocks[0].MinBytes = []string{foreign}, false, 1000 }, ErrJob},
		"a store of others":          {func(j *job.Job) { j.Engine, j.Directory = job.EngineStore, storeDir }, ErrForeign},
		"a store's missing folder":   {func(j *job.Job) { j.Engine, j.Directory = job.EngineStore, filepath.Join(dir, "no", "where") }, fs.ErrNotExist},
		"no store to read":           {func(j *job.Job) { j.Engine, j.Writes, j.Directory = job.EngineStore, false, filepath.Join(dir, "new") }, fs.ErrNotExist},
		"a folder of something else": {func(j *job.Job) { j.Engine, j.Directory = job.EngineStore, otherDir }, ErrForeign},
		"no folder":                  {func(j *job.Job) { j.Directory = "" }, ErrJob},
		"verifying nothing":          {func(j *job.Job) { j.Engine, j.Verify = job.EngineNull, job.CheckCRC32C }, ErrJob},
	} {
		t.Run(name, func(t *testing.T) {
			j := aJob(job.EngineRaw, dir)
			c.change(&j)
			if _, err := open(t, j, Options{}); !errors.Is(err, c.want) {
				t.Errorf("error %v, want one that matches %v", err, c.want)
			}
			if after := tree(t, dir); after != before {
				t.Errorf("something was made or changed:\n%s", after)
			}
		})
	}
	j := aJob(job.EngineRaw, dir)
	j.Filenames = []string{foreign}
	if _, err := open(t, j, Options{Foreign: true}); err != nil {
		t.Errorf("a foreign file that was allowed: %v", err)
	}
}

// TestInterrupted: laying out ends with its context.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	j := aJob(job.EngineRaw, t.TempDir())
	j.Size.Bytes = 64 << 20
	s := NewSet([]job.Job{j}, Options{Progress: func(string, int64, int64) { cancel() }})
	defer s.Close()
	if _, err := s.Open(ctx, &j); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
