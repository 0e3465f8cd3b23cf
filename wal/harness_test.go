package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/device/sim"
)

var testStore = [16]byte{'t', 'e', 's', 't', 's', 't', 'o', 'r', 'e'}

func smallLog() Options {
	return Options{StoreID: testStore, FileBytes: fileBytesMin, FilesMax: 3}
}

// payloadOf is the payload of a position in one life of a log: no two lives
// write the same bytes under one position.
func payloadOf(life uint64, p Position, n int) []byte {
	b := make([]byte, max(n, 16))
	binary.LittleEndian.PutUint64(b, life)
	binary.LittleEndian.PutUint64(b[8:], uint64(p))
	rng := rand.New(rand.NewPCG(life, uint64(p)))
	for i := 16; i < len(b); i++ {
		b[i] = byte(rng.Uint32())
	}
	return b
}

type record struct {
	position Position
	payload  []byte
}

func recoverAll(dev device.Device, o Options, from Position) (records []record, found Recovered, err error) {
	found, err = Recover(dev, o, from, func(p Position, payload []byte) error {
		records = append(records, record{p, bytes.Clone(payload)})
		return nil
	})
	return records, found, err
}

func positions(records []record) (ps []Position) {
	for _, r := range records {
		ps = append(ps, r.position)
	}
	return ps
}

func mustOpenDisk(t testing.TB, disk *sim.Disk) device.Device {
	t.Helper()
	dev, err := disk.Open()
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

func mustOpen(t testing.TB, dev device.Device, o Options, next Position) *Log {
	t.Helper()
	l, err := Open(dev, o, next)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustAppend(t testing.TB, l *Log, payload []byte, barrier bool) Position {
	t.Helper()
	p, err := l.Append(payload, barrier)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustClose(t testing.TB, closers ...interface{ Close() error }) {
	t.Helper()
	for _, c := range closers {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// kill ends the process that runs l.
func kill(t testing.TB, disk *sim.Disk, dev device.Device, l *Log) {
	t.Helper()
	disk.Kill()
	if l != nil {
		_ = l.Close() // its answer depends on what the writer was doing
	}
	if err := dev.Close(); !errors.Is(err, sim.ErrKilled) {
		t.Fatalf("closing a killed device: %v", err)
	}
}

// tap is a device that counts, and that can strike: before the call or op
// number strikeAt, or, for an op, right after it was submitted.
type tap struct {
	device.Device
	mu       sync.Mutex
	calls    int
	writes   int
	syncs    int
	strikeAt int // 0: never
	during   bool
	strike   func()
	bad      func(*device.Op) bool // reads that end in EIO
	trail    []string              // everything that changes the medium, in order
}

func (d *tap) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trail = append(d.trail, fmt.Sprintf(format, args...))
}

// takeTrail returns and forgets the trail.
func (d *tap) takeTrail() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	trail := d.trail
	d.trail = nil
	return trail
}

func (d *tap) count() (strikeNow bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	return d.calls == d.strikeAt
}

func (d *tap) before() {
	if d.count() {
		d.strike()
	}
}

func (d *tap) Submit(ops []*device.Op) {
	for _, op := range ops {
		now := d.count()
		d.mu.Lock()
		switch op.Kind {
		case device.Write:
			d.writes++
			d.trail = append(d.trail, fmt.Sprintf("write %s %d", op.File.Name(), op.Offset))
		case device.Sync:
			d.syncs++
			d.trail = append(d.trail, "sync "+op.File.Name())
		}
		d.mu.Unlock()
		if op.Kind == device.Read && d.bad != nil && d.bad(op) {
			op.N, op.Err = 0, syscall.EIO
			op.Done(op)
			continue
		}
		if now && !d.during {
			d.strike()
		}
		d.Device.Submit([]*device.Op{op})
		if now && d.during {
			d.strike()
		}
	}
}

func (d *tap) counts() (writes, syncs int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes, d.syncs
}

func (d *tap) Create(name string, n int64) (device.File, error) {
	d.before()
	d.note("create %s", name)
	return d.Device.Create(name, n)
}

func (d *tap) Open(name string) (device.File, error) {
	d.before()
	return d.Device.Open(name)
}

func (d *tap) Remove(name string) error {
	d.before()
	d.note("remove %s", name)
	return d.Device.Remove(name)
}

func (d *tap) Rename(oldName, newName string) error {
	d.before()
	d.note("rename %s %s", oldName, newName)
	return d.Device.Rename(oldName, newName)
}

func (d *tap) SyncDir() error {
	d.before()
	d.note("sync directory")
	return d.Device.SyncDir()
}

func (d *tap) List() ([]string, error) {
	d.before()
	return d.Device.List()
}

// logBytes is what the log's files take on the disk.
func logBytes(t testing.TB, disk *sim.Disk) (sum int64) {
	t.Helper()
	for _, name := range disk.Names() {
		if _, ok := fileNumber(name); !ok {
			t.Errorf("unexpected file %s", name)
		}
		b, err := disk.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		sum += int64(len(b))
	}
	return sum
}

// rewrite replaces the content of a file through f.
func rewrite(t testing.TB, disk *sim.Disk, name string, f func(b []byte) []byte) {
	t.Helper()
	b, err := disk.Bytes(name)
	if err != nil {
		t.Fatal(err)
	}
	b = f(slices.Clone(b))
	dev := mustOpenDisk(t, disk)
	if err := dev.WriteFile(name, b); err != nil {
		t.Fatal(err)
	}
	mustClose(t, dev)
}
