package sim_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

// cut makes a power cut and lets the dead session's goroutines end.
func cut(t testing.TB, d *sim.Disk, s device.Device, files ...device.File) {
	t.Helper()
	d.PowerCut()
	bury(t, s, files...)
}

func bury(t testing.TB, s device.Device, files ...device.File) {
	t.Helper()
	for _, f := range files {
		closeAll(t, f)
	}
	if err := s.Close(); !errors.Is(err, sim.ErrKilled) {
		t.Errorf("Close of a dead session: %v", err)
	}
}

// sectorModel knows what each sector may hold after a power cut: the first is
// the durable value, the last the current one.
type sectorModel [][]byte

// TestPowerCutLegal: over many histories, every sector holds after a power cut
// its synced value or one written since, and before it exactly the newest.
func TestPowerCutLegal(t *testing.T) {
	const sectors, pages = 96, 3 // 48 KiB: three pages of the medium
	older := 0
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		d := sim.NewDisk(sim.Config{Seed: seed})
		s := open(t, d)
		f := create(t, s, "f", sectors*512)
		must(t, s.SyncDir())
		model := make(sectorModel, sectors)
		for i := range model {
			model[i] = []byte{0}
		}
		value := byte(0)
		for range 3 {
			for range rnd.IntN(30) {
				switch rnd.IntN(8) {
				case 0:
					mustDo(t, s, syncOp(f))
					for i, m := range model {
						model[i] = m[len(m)-1:]
					}
				case 1:
					first := rnd.IntN(pages)
					n := 1 + rnd.IntN(pages-first)
					mustDo(t, s, &device.Op{Kind: device.Punch, File: f, Offset: int64(first) * 16384, LengthBytes: int64(n) * 16384})
					model.set(first*32, n*32, 0)
				default:
					first := rnd.IntN(sectors)
					n := 1 + rnd.IntN(sectors-first)
					value = value%250 + 1
					mustDo(t, s, writeOp(f, int64(first)*512, filled(n*512, value)))
					model.set(first, n, value)
				}
			}
			for i, v := range model.read(t, mustBytes(t, d, "f")) {
				if m := model[i]; v != m[len(m)-1] {
					t.Fatalf("seed %d: before the cut sector %d holds %d, want %d", seed, i, v, m[len(m)-1])
				}
			}
			cut(t, d, s, f)
			for i, v := range model.read(t, mustBytes(t, d, "f")) {
				m := model[i]
				if !slices.Contains(m, v) {
					t.Fatalf("seed %d: after the cut sector %d holds %d, possible are %v", seed, i, v, m)
				}
				if v != m[0] && v != m[len(m)-1] {
					older++
				}
				model[i] = []byte{v}
			}
			s = open(t, d)
			f = reopen(t, s, "f")
		}
		closeAll(t, f, s)
	}
	if older == 0 {
		t.Error("no sector ever fell back to a write between the oldest and the newest")
	}
}

func (m sectorModel) set(first, n int, value byte) {
	for i := first; i < first+n; i++ {
		m[i] = append(slices.Clip(m[i]), value)
	}
}

// read returns each sector's value and fails if a sector is not of one piece.
func (m sectorModel) read(t *testing.T, content []byte) []byte {
	t.Helper()
	if len(content) != len(m)*512 {
		t.Fatalf("the file has %d bytes", len(content))
	}
	values := make([]byte, len(m))
	for i := range m {
		values[i] = content[i*512]
		if !bytes.Equal(content[i*512:(i+1)*512], bytes.Repeat(values[i:i+1], 512)) {
			t.Fatalf("sector %d is torn inside", i)
		}
	}
	return values
}

// fates counts the outcomes of n seeds.
func fates(n uint64, outcome func(seed uint64) string) map[string]int {
	seen := map[string]int{}
	for seed := range n {
		seen[outcome(seed)]++
	}
	return seen
}

func wantFates(t *testing.T, seen map[string]int, want ...string) {
	t.Helper()
	for _, w := range want {
		if seen[w] == 0 {
			t.Errorf("outcome %q never occurred: %v", w, seen)
		}
	}
	for got := range seen {
		if !slices.Contains(want, got) {
			t.Errorf("outcome %q is not legal: %v", got, seen)
		}
	}
}

func TestPowerCutTearsUnsynced(t *testing.T) {
	wantFates(t, fates(100, func(seed uint64) string {
		d := sim.NewDisk(sim.Config{Seed: seed})
		s := open(t, d)
		f := create(t, s, "f", 4096)
		must(t, s.SyncDir())
		mustDo(t, s, writeOp(f, 0, filled(4096, 1)), syncOp(f), writeOp(f, 0, filled(4096, 2)))
		cut(t, d, s, f)
		switch b := mustBytes(t, d, "f"); bytes.Count(b, []byte{2}) {
		case 0:
			return "lost"
		case 4096:
			return "kept"
		}
		return "torn"
	}), "lost", "kept", "torn")
}

// TestSyncCoversWhatHadEnded: a write that ends while a sync is in flight is
// not covered by it.
func TestSyncCoversWhatHadEnded(t *testing.T) {
	wantFates(t, fates(40, func(seed uint64) (outcome string) {
		synctest.Test(t, func(t *testing.T) {
			d := sim.NewDisk(sim.Config{Seed: seed, MinLatency: time.Second})
			s := open(t, d)
			f := create(t, s, "f", 1024)
			must(t, s.SyncDir())
			mustDo(t, s, writeOp(f, 0, filled(512, 1)))
			late, syncing := writeOp(f, 512, filled(512, 2)), syncOp(f)
			done := make(chan struct{}, 2)
			late.Done = func(*device.Op) { done <- struct{}{} }
			syncing.Done = late.Done
			s.Submit([]*device.Op{late})
			time.Sleep(time.Second / 2)
			s.Submit([]*device.Op{syncing})
			<-done
			<-done
			cut(t, d, s, f)
			b := mustBytes(t, d, "f")
			outcome = fmt.Sprint(b[0], b[512])
		})
		return outcome
	}), "1 0", "1 2")
}

// TestPowerCutPunch: an unsynced punch may be undone, page by page.
func TestPowerCutPunch(t *testing.T) {
	wantFates(t, fates(60, func(seed uint64) string {
		d := sim.NewDisk(sim.Config{Seed: seed})
		s := open(t, d)
		f := create(t, s, "f", 32<<10)
		must(t, s.SyncDir())
		mustDo(t, s, writeOp(f, 0, filled(32<<10, 1)), syncOp(f), &device.Op{Kind: device.Punch, File: f, LengthBytes: 32 << 10})
		cut(t, d, s, f)
		switch bytes.Count(mustBytes(t, d, "f"), []byte{1}) {
		case 0:
			return "punched"
		case 32 << 10:
			return "undone"
		}
		return "mixed"
	}), "punched", "undone", "mixed")
}

func TestPowerCutNames(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s device.Device) error
		want   []string
	}{
		"Create": {func(s device.Device) error { return createClosed(s, "new") }, []string{"[b]", "[b new]"}},
		"Remove": {func(s device.Device) error { return s.Remove("b") }, []string{"[b]", "[]"}},
		"Rename": {func(s device.Device) error { return s.Rename("b", "c") }, []string{"[b]", "[c]"}},
		"Two": {func(s device.Device) error {
			return errors.Join(createClosed(s, "x"), createClosed(s, "y"))
		}, []string{"[b]", "[b x]", "[b y]", "[b x y]"}},
		"CreateRename": {func(s device.Device) error {
			return errors.Join(createClosed(s, "x"), s.Rename("x", "b"))
		}, []string{"[b]", "[b x]"}},
		"Synced": {func(s device.Device) error {
			return errors.Join(createClosed(s, "new"), s.Remove("b"), s.SyncDir())
		}, []string{"[new]"}},
		"WriteFile": {func(s device.Device) error {
			return errors.Join(s.Rename("b", "w"), s.WriteFile("w", []byte("x")))
		}, []string{"[b w]", "[w]"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantFates(t, fates(100, func(seed uint64) string {
				d := sim.NewDisk(sim.Config{Seed: seed})
				s := open(t, d)
				must(t, createClosed(s, "b"))
				must(t, s.SyncDir())
				must(t, c.change(s))
				cut(t, d, s)
				return fmt.Sprint(d.Names())
			}), c.want...)
		})
	}
}

func createClosed(s device.Device, name string) error {
	f, err := s.Create(name, 512)
	if err != nil {
		return err
	}
	return f.Close()
}

// TestPowerCutCreatedSize: a kept creation may be empty unless it was synced.
func TestPowerCutCreatedSize(t *testing.T) {
	for name, c := range map[string]struct {
		sync func(s device.Device, f device.File) error
		want []string
	}{
		"Nothing":  {func(device.Device, device.File) error { return nil }, []string{"none", "0", "512"}},
		"FileSync": {func(s device.Device, f device.File) error { return device.Do(s, syncOp(f)) }, []string{"none", "512"}},
		"SyncDir":  {func(s device.Device, f device.File) error { return s.SyncDir() }, []string{"512"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantFates(t, fates(100, func(seed uint64) string {
				d := sim.NewDisk(sim.Config{Seed: seed})
				s := open(t, d)
				f := create(t, s, "f", 512)
				must(t, c.sync(s, f))
				cut(t, d, s, f)
				if b, err := d.Bytes("f"); err == nil {
					return fmt.Sprint(len(b))
				}
				return "none"
			}), c.want...)
		})
	}
}

// TestPowerCutWriteFile: durable when it returns, whatever came before.
func TestPowerCutWriteFile(t *testing.T) {
	for seed := range uint64(60) {
		d := sim.NewDisk(sim.Config{Seed: seed})
		s := open(t, d)
		must(t, s.WriteFile("state", []byte("one")))
		must(t, s.Remove("state"))
		must(t, createClosed(s, "other"))
		must(t, s.Rename("other", "state"))
		must(t, s.WriteFile("state", []byte("two")))
		cut(t, d, s)
		if got := mustBytes(t, d, "state"); string(got) != "two" {
			t.Fatalf("seed %d: %q", seed, got)
		}
		s = open(t, d) // and it stays so
		closeAll(t, s)
	}
}

// TestPowerCutRemovedContent: a file whose removal is lost comes back whole.
func TestPowerCutRemovedContent(t *testing.T) {
	wantFates(t, fates(60, func(seed uint64) string {
		d := sim.NewDisk(sim.Config{Seed: seed})
		s := open(t, d)
		f := create(t, s, "f", 4096)
		mustDo(t, s, writeOp(f, 0, filled(4096, 1)), syncOp(f))
		must(t, s.SyncDir())
		closeAll(t, f)
		must(t, s.Remove("f"))
		fresh := create(t, s, "f", 512)
		mustDo(t, s, writeOp(fresh, 0, filled(512, 2)), syncOp(fresh))
		cut(t, d, s, fresh)
		b, err := d.Bytes("f")
		switch {
		case err != nil:
			return "none"
		case bytes.Equal(b, filled(4096, 1)):
			return "old"
		case bytes.Equal(b, filled(512, 2)):
			return "new"
		}
		return fmt.Sprint("mixed ", len(b), b[0])
	}), "none", "old", "new")
}

func TestPowerCutAttributes(t *testing.T) {
	wantFates(t, fates(60, func(seed uint64) string {
		d := sim.NewDisk(sim.Config{Seed: seed})
		s := open(t, d)
		f := create(t, s, "f", 512)
		must(t, f.SetAttr("a", []byte("old")))
		must(t, f.SetAttr("synced", []byte("yes")))
		must(t, s.SyncDir())
		must(t, f.SetAttr("a", []byte("new")))
		must(t, f.SetAttr("b", []byte("set")))
		cut(t, d, s, f)
		s = open(t, d)
		f = reopen(t, s, "f")
		a, _ := f.Attr("a")
		b, _ := f.Attr("b")
		synced, _ := f.Attr("synced")
		closeAll(t, f, s)
		return fmt.Sprintf("%s/%s/%s", a, b, synced)
	}), "old//yes", "new//yes", "old/set/yes", "new/set/yes")
}

// TestKill: completed ops stay, ops in flight land or not, queued ones are
// lost; each Done comes once; the dead session is powerless.
func TestKill(t *testing.T) {
	seen := fates(40, func(seed uint64) (outcome string) {
		synctest.Test(t, func(t *testing.T) { outcome = killOnce(t, seed) })
		return outcome
	})
	wantFates(t, seen, "1000", "1100", "1010", "1110")
}

// killOnce kills with one write ended, two in flight and one queued, and tells
// which of them the medium has.
func killOnce(t *testing.T, seed uint64) string {
	d := sim.NewDisk(sim.Config{Seed: seed, QueueDepth: 3, MinLatency: time.Second})
	s := open(t, d)
	f := create(t, s, "f", 8192)
	mustDo(t, s, writeOp(f, 0, filled(512, 1)))
	dst := filled(512, 9)
	ops := []*device.Op{
		writeOp(f, 512, filled(512, 1)), writeOp(f, 1024, filled(512, 1)), readOp(f, 0, dst), writeOp(f, 1536, filled(512, 1)),
	}
	var dones atomic.Int64
	for _, op := range ops {
		op.Done = func(op *device.Op) {
			if !errors.Is(op.Err, sim.ErrKilled) {
				t.Errorf("op at %d ended with %v", op.Offset, op.Err)
			}
			dones.Add(1)
		}
	}
	s.Submit(ops)
	synctest.Wait()
	d.Kill()
	after := mustBytes(t, d, "f")
	next := open(t, d) // at once
	synctest.Wait()
	if n := dones.Load(); n != 4 {
		t.Errorf("%d of 4 Dones", n)
	}
	late := writeOp(f, 4096, filled(512, 8))
	if err := device.Do(s, late); !errors.Is(err, sim.ErrKilled) {
		t.Errorf("Submit after Kill: %v", err)
	}
	for what, err := range deadCalls(s, f) {
		if !errors.Is(err, sim.ErrKilled) {
			t.Errorf("%s after Kill: %v", what, err)
		}
	}
	bury(t, s, f)
	if !bytes.Equal(after, mustBytes(t, d, "f")) || !slices.Equal(d.Names(), []string{"f"}) {
		t.Error("the dead session changed the medium")
	}
	if !bytes.Equal(dst, filled(512, 9)) {
		t.Error("a read wrote into its buffer though it was killed")
	}
	closeAll(t, next)
	return fmt.Sprintf("%d%d%d%d", after[0], after[512], after[1024], after[1536])
}

func deadCalls(s device.Device, f device.File) map[string]error {
	_, createErr := s.Create("x", 0)
	_, openErr := s.Open("f")
	_, listErr := s.List()
	_, readErr := s.ReadFile("f")
	_, spaceErr := s.Space()
	_, attrErr := f.Attr("a")
	return map[string]error{
		"Create": createErr, "Open": openErr, "List": listErr, "ReadFile": readErr, "Space": spaceErr,
		"Attr": attrErr, "SetAttr": f.SetAttr("a", nil), "Remove": s.Remove("f"), "Rename": s.Rename("f", "g"),
		"WriteFile": s.WriteFile("x", nil), "SyncDir": s.SyncDir(),
	}
}

// TestKillKeepsUnsynced: a process that dies takes nothing with it that had
// ended, synced or not.
func TestKillKeepsUnsynced(t *testing.T) {
	for seed := range uint64(30) {
		d := sim.NewDisk(sim.Config{Seed: seed})
		s := open(t, d)
		f := create(t, s, "f", 4096)
		mustDo(t, s, writeOp(f, 0, filled(4096, 1)))
		d.Kill()
		bury(t, s, f)
		if !bytes.Equal(mustBytes(t, d, "f"), filled(4096, 1)) {
			t.Fatalf("seed %d: Kill lost a completed write", seed)
		}
	}
}

// TestKillFromDone: a crash after the k-th op is made from its Done.
func TestKillFromDone(t *testing.T) {
	d := sim.NewDisk(sim.Config{QueueDepth: 1})
	s := open(t, d)
	f := create(t, s, "f", 4096)
	var ended, killed atomic.Int64
	ops := make([]*device.Op, 8)
	for i := range ops {
		ops[i] = writeOp(f, int64(i)*512, filled(512, 1))
		ops[i].Done = func(op *device.Op) {
			switch {
			case op.Err != nil:
				killed.Add(1)
			case ended.Add(1) == 3:
				d.Kill()
			}
		}
	}
	s.Submit(ops)
	if err := s.Close(); !errors.Is(err, sim.ErrKilled) && err != nil {
		t.Errorf("Close: %v", err)
	}
	if ended.Load() != 3 || killed.Load() != 5 {
		t.Errorf("%d ended and %d killed, want 3 and 5", ended.Load(), killed.Load())
	}
	if got := bytes.Count(mustBytes(t, d, "f"), []byte{1}); got != 3*512 {
		t.Errorf("%d bytes landed, want %d", got, 3*512)
	}
}

// TestKillDuringClose: Close that waits for a stuck op ends with the process.
func TestKillDuringClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sim.NewDisk(sim.Config{Faults: sim.Plan{StuckOnce: 1}})
		s := open(t, d)
		f := create(t, s, "f", 512)
		op := writeOp(f, 0, filled(512, 1))
		op.Done = func(*device.Op) {}
		s.Submit([]*device.Op{op})
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		d.PowerCut()
		if err := <-closed; !errors.Is(err, sim.ErrKilled) {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestKillWithoutSession(t *testing.T) {
	d := sim.NewDisk(sim.Config{})
	d.Kill()
	d.PowerCut()
	closeAll(t, open(t, d))
}
