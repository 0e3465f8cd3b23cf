package history

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device/sim"
	"github.com/spillway-kv/spillway/engine/evict"
)

// plan makes the disk's plan.
func (f Faults) plan() sim.Plan {
	p := sim.Plan{ReadEIO: f.ReadEIO, WriteEIO: f.WriteEIO, SyncEIO: f.SyncEIO, MetaEIO: f.MetaEIO,
		ShortRead: f.ShortRead, ShortWrite: f.ShortWrite, TruncatedRead: f.TruncatedRead,
		LostWrite: f.Lost, MisdirectedWrite: f.Misdirected, TornWrite: f.Torn, BitRot: f.Rot,
		Delay: f.Delay, DelayBy: f.DelayBy, StuckOnce: f.Stuck}
	if f.Prefix != "" {
		p.Filter = func(name string) bool { return strings.HasPrefix(name, f.Prefix) }
	}
	return p
}

// fill lets somebody else take room on the disk while the store is stopped.
func (r *runner) fill(nBytes int64) {
	const name = "another program's file"
	dev, err := r.disk.Open()
	if err != nil {
		r.fail("fill: %w", err)
		return
	}
	_ = dev.Remove(name)
	if nBytes > 0 {
		space, _ := dev.Space()
		if f, err := dev.Create(name, min(nBytes, space.FreeBytes)); err == nil {
			_ = f.Close()
		}
	}
	_ = dev.SyncDir()
	_ = dev.Close()
}

// flip changes bits of the stopped store.
func (r *runner) flip(flips []Flip) {
	for _, f := range flips {
		var names []string
		for _, name := range r.disk.Names() {
			if strings.HasPrefix(name, f.Prefix) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		name := names[f.Number%uint64(len(names))]
		rest := f.Number / uint64(len(names))
		limit := uint64(64 << 10)
		if f.Header {
			limit = 128
		}
		if err := r.disk.FlipBit(name, int64(rest%limit), uint(rest/limit%8)); err != nil {
			r.log.printf("no flip: %v", err)
		}
	}
}

func (r *runner) options(l *Life) engine.Options {
	c := &r.h.Config
	policy, err := evict.Named(c.Policy)
	if err != nil {
		panic(err) // a history names a policy that there is
	}
	o := engine.Options{Policy: policy, CapacityBytes: l.CapacityBytes, SegmentBytes: c.SegmentBytes, FrameBytes: c.FrameBytes,
		QueueDepth: c.QueueDepth, IndexMemoryMaxBytes: 1 << 20, SyncInterval: c.SyncInterval, LeaseShare: c.LeaseShare,
		IndexFS: r.index, Logger: slog.New(storeLog{r: r})}
	return o
}

// open opens the store. Faults may make it fail; without them it must succeed.
// False: the life is over before it began.
func (r *runner) open(lf *life, l *Life) bool {
	if l.OpenFaults != nil {
		r.disk.SetFaults(l.OpenFaults.plan())
	}
	var killed, finished chan struct{}
	died := false
	if l.DieOpening > 0 {
		killed, finished = make(chan struct{}), make(chan struct{})
		go func() {
			defer close(killed)
			select {
			case <-time.After(l.DieOpening):
				died = true
				r.model.checked.Crashes++
				r.die(l)
			case <-finished:
			}
		}()
	}
	err := r.tryOpen(lf, l)
	if killed != nil {
		close(finished)
		<-killed
	}
	if died {
		r.disk.SetFaults(sim.Plan{})
		r.model.endOpening(l.End)
		if lf.store != nil {
			_ = r.closeStore(lf)
		}
		return false
	}
	r.disk.SetFaults(sim.Plan{})
	if err != nil && l.OpenFaults != nil {
		r.log.printf("open again after %v", err)
		r.closeHalf(lf)
		err = r.tryOpen(lf, l)
	}
	if err != nil {
		r.closeHalf(lf)
		if r.model.excuse.full && errors.Is(err, errNoSpace) {
			r.log.printf("no room to open: %v", err)
			return false
		}
		r.fail("life %d: Open: %w", lf.number, err)
		return false
	}
	r.model.opened()
	return true
}

// closeHalf closes a store that opened but could not open its namespaces.
func (r *runner) closeHalf(lf *life) {
	if lf.store != nil {
		_ = r.closeStore(lf)
		lf.store, lf.counted.closing = nil, false
	}
}

// tryOpen opens the store and its namespaces.
func (r *runner) tryOpen(lf *life, l *Life) error {
	dev, err := r.disk.Open()
	if err != nil {
		return err
	}
	o := r.options(l)
	o.Device = dev
	if o.CapacityBytes == 0 {
		if _, err := dev.ReadFile("SPILLWAY"); err != nil { // the first opens died before they made it
			o.CapacityBytes = r.h.Config.CapacityBytes
		}
	}
	r.calls.run("Open", time.Time{}, func() { lf.store, err = engine.Open(o) })
	if err != nil {
		lf.store = nil
		return err
	}
	return lf.openSpaces(&r.h.Config)
}

func (lf *life) openSpaces(c *Config) error {
	lf.spaces = nil
	for i := range c.Spaces {
		ns, err := lf.store.Namespace(c.Spaces[i].descriptor())
		if err != nil {
			return err
		}
		lf.spaces = append(lf.spaces, ns)
	}
	return nil
}

func (s Space) descriptor() engine.Descriptor {
	return engine.Descriptor{Name: "model", Revision: s.Revision, BlockBytes: s.BlockBytes}
}

// checkStat checks the counters of a life that runs without faults.
func (r *runner) checkStat(lf *life) {
	st := lf.store.Stat()
	r.log.printf("stat: %d blocks, %d segments, health %s, %+v", st.Blocks, st.Segments, st.Health, st.Counters)
	e := r.model.excuse
	if st.Health != "ok" && !e.trouble && !e.damage && !(st.Health == "sick" && e.slow) {
		r.fail("HEALTH: %s (%s) without a fault", st.Health, st.HealthCause)
	}
	if e.damage || e.trouble {
		return
	}
	c := st.Counters
	if r.hadPowerCut(lf.number) {
		c.StaleReads = 0 // a lost block may be evicted, or found out by another, while it is read
	}
	if c.TornBlocks+c.StaleReads+c.QuarantinedSlots+c.ReadErrors+c.WriteErrors != 0 {
		r.fail("HEALTHY CALLED DAMAGED: torn %d, stale %d, quarantined %d, read errors %d, write errors %d",
			c.TornBlocks, c.StaleReads, c.QuarantinedSlots, c.ReadErrors, c.WriteErrors)
	}
	if c.LostBlocks != 0 && !r.hadPowerCut(lf.number) {
		r.fail("HEALTHY CALLED DAMAGED: %d blocks lost without a power cut", c.LostBlocks)
	}
	if st.UsedBytes > st.CapacityBytes {
		r.fail("CAPACITY: %d bytes used of %d: %+v", st.UsedBytes, st.CapacityBytes, st)
	}
	for _, ns := range st.Namespaces {
		perSegment := max(int(st.SegmentBytes-4096)/ns.SlotBytes, 8)
		if ns.Blocks > ns.Segments*perSegment {
			r.fail("SLOTS: %d blocks in %d segments of %d", ns.Blocks, ns.Segments, perSegment)
		}
	}
}

func (r *runner) hadPowerCut(before int) bool {
	for _, l := range r.h.Lives[:min(before, len(r.h.Lives))] {
		if l.End == PowerCut {
			return true
		}
	}
	return false
}

// checkReadOnly demands that a store that met a failed sync of its log says so.
func (r *runner) checkReadOnly(lf *life, l *Life, before uint64) {
	for _, f := range l.Faults {
		if f.Faults.SyncEIO > 0 && f.Faults.Prefix != "wal-" {
			return
		}
	}
	if r.disk.Injected().SyncEIO == before {
		return
	}
	status, err := r.probe(lf)
	if status != engine.Dropped || !errors.Is(err, engine.ErrReadOnly) {
		r.fail("after a failed sync of the log a durable put answers %v (%v)", status, err)
	}
	if st := lf.store.Stat(); st.Health != "read-only" || st.HealthCause == "" {
		r.fail("after a failed sync of the log the health is %q (%q)", st.Health, st.HealthCause)
	}
}

// probe puts one block that no client knows, durably.
func (r *runner) probe(lf *life) (engine.Status, error) {
	item := engine.PutItem{Key: engine.Key{Bytes: fmt.Append(nil, "probe ", lf.number)},
		Src: [][]byte{make([]byte, r.h.Config.Spaces[0].BlockBytes)}}
	items := []engine.PutItem{item}
	if err := lf.spaces[0].Put(items, engine.PutOptions{Durability: engine.Durable}); err != nil {
		return engine.Unanswered, err
	}
	return items[0].Status, items[0].Err
}
