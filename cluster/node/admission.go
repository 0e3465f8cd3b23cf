package node

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/admit"
)

// What Admission.Admit and NamespaceRule.Admit may be.
const (
	AdmitAll    = "all"    // every block that is put
	AdmitSecond = "second" // a block that is put again, soon enough
)

// Admission says which puts are worth writing. Zero values mean the defaults named here.
type Admission struct {
	// Admit is AdmitAll (the default) or AdmitSecond.
	Admit string
	// PartialBlocks admits blocks that their clients call partial. Default: not.
	PartialBlocks bool
	// WriteBytesPerSecond bounds what each store may be written, over time; 0: no bound.
	// What accrues within WriteBurst (default 10 s) may be written at once.
	WriteBytesPerSecond int64
	WriteBurst          time.Duration
	// DrivesPerDay bounds it in store capacities per day (DWPD); 0: no bound. What
	// accrues within WearBurst (default 1 h) may be written at once.
	DrivesPerDay float64
	WearBurst    time.Duration
}

func (a *Admission) setDefaults() {
	setDefault(&a.Admit, AdmitAll)
	setDefault(&a.WriteBurst, 10*time.Second)
	setDefault(&a.WearBurst, time.Hour)
}

func admits(mode string) bool { return mode == "" || mode == AdmitAll || mode == AdmitSecond }

func (a *Admission) validate() error {
	switch {
	case !admits(a.Admit):
		return fmt.Errorf("%w: admit is %q, want all or second", ErrOptions, a.Admit)
	case a.WriteBytesPerSecond < 0 || a.WriteBytesPerSecond > 1<<50:
		return fmt.Errorf("%w: write rate is %d, want 0 to %d bytes a second", ErrOptions, a.WriteBytesPerSecond, int64(1)<<50)
	case !(a.DrivesPerDay >= 0 && a.DrivesPerDay <= 10000): // NaN too
		return fmt.Errorf("%w: %v drive writes per day, want 0 to 10000", ErrOptions, a.DrivesPerDay)
	case a.WriteBurst < time.Second || a.WriteBurst > 24*time.Hour || a.WearBurst < time.Second || a.WearBurst > 24*time.Hour:
		return fmt.Errorf("%w: write burst %v and wear burst %v, want 1s to 24h", ErrOptions, a.WriteBurst, a.WearBurst)
	}
	return nil
}

// wearStat adds what was written to the drive and what may be.
func (d *drive) wearStat(st *DriveStat, now time.Time) {
	day := d.wear.Day(now)
	st.DayBytes, st.DayMS = day.Bytes, day.Time.Milliseconds()
	st.DayBudgetBytes = int64(d.budget.BytesPerSecond() * (24 * time.Hour).Seconds())
	st.BudgetLeftBytes, _ = d.budget.Left(now)
	st.DrivesPerDay, st.DaysLeft = day.DrivesPerDay(d.capacityBytes), day.DaysLeft(d.enduranceBytes)
}

// setLimits makes the write budget what the options say. With limits that stay the
// same, what was saved up stays.
func (d *drive) setLimits(a *Admission) {
	d.budget.SetLimits(time.Now(), admit.Limit{BytesPerSecond: float64(a.WriteBytesPerSecond), Burst: a.WriteBurst},
		admit.Wears(a.DrivesPerDay, d.capacityBytes, a.WearBurst))
}

// bySecondSight reports whether blocks of namespaces of this name are admitted when
// they are put again.
func (o *Options) bySecondSight(name string) bool {
	mode := o.Namespaces[name].Admit
	setDefault(&mode, o.Admission.Admit)
	return mode == AdmitSecond
}

// writeShare is the weight in the write budget of namespaces of this name.
func (o *Options) writeShare(name string) float64 {
	rule := o.Namespaces[name]
	setDefault(&rule.WriteShare, rule.Share)
	return float64(max(rule.WriteShare, 1))
}

const (
	// sightBytes is for how many bytes of capacity a node remembers one put block: as
	// many blocks as it holds, if they are no smaller.
	sightBytes = 256 << 10
	sightsMin  = 1 << 16
	sightsMax  = 1 << 24 // 48 MiB of memory
)

// setSights makes the memory of what was put, when somebody wants it for the first
// time. It stays.
func (n *Node) setSights(o *Options) {
	wanted := o.Admission.Admit == AdmitSecond
	for name := range o.Namespaces {
		wanted = wanted || o.bySecondSight(name)
	}
	if !wanted || n.sights.Load() != nil {
		return
	}
	blocks := 0.0
	for _, capacity := range n.sizes {
		blocks += capacity / sightBytes
	}
	n.sights.Store(admit.NewSights(int(min(max(blocks, sightsMin), sightsMax))))
}

// gate drops the blocks of a put that are not worth a write: absent ones that are partial,
// seen for the first time, or over the write budget; of what is moved only these last, and
// never these of what may go away.
// Behind the first that is dropped none is admitted: it would be of no use.
func (b *batch) gate(w *putting) {
	o := b.node.options.Load()
	var sights *admit.Sights
	if o.bySecondSight(b.space.name) && !w.moved {
		sights = b.node.sights.Load()
	}
	limited := false
	for i := range b.space.parts {
		limited = limited || !w.away && b.space.parts[i].drive.budget.Limited()
	}
	partial := w.options.Partial && !o.Admission.PartialBlocks && !w.moved
	if sights == nil && !limited && !partial {
		return
	}
	here, _, _, err := b.space.present(b.keys, engine.MatchOptions{})
	if err != nil {
		return // the engine will say so again
	}
	seed, now, stop := binary.LittleEndian.Uint64(b.space.id[:]), time.Now(), admit.Admitted
	for i, k := range b.keys {
		if b.pieces[i] == nil || here[i] { // a put of what is here writes nothing
			continue
		}
		why := stop
		if sights != nil && !sights.Saw(seed+uint64(k.Group), k.Bytes) {
			setDefault(&why, admit.FirstSight)
		}
		if partial && i == len(b.keys)-1 {
			why = admit.Partial
		}
		if why == admit.Admitted && limited {
			why = b.charge(i, now)
		}
		if why != admit.Admitted {
			b.refuse(i, why)
			stop = why
		}
	}
}

// charge takes a block from the write budget of its drive.
func (b *batch) charge(i int, now time.Time) admit.Reason {
	p := &b.space.parts[b.space.home(b.keys[i].Group, b.keys[i].Bytes)]
	if !p.drive.budget.Take(now, p.writes, int64(b.space.blockBytes)) {
		return admit.OverBudget
	}
	if b.charged == nil {
		b.charged = make([]bool, len(b.keys))
	}
	b.charged[i] = true
	return admit.Admitted
}

// refund gives back what was charged for blocks of a chunk that were not written.
func (b *batch) refund(c *chunk) {
	if b.charged == nil {
		return
	}
	bytes := int64(0)
	for _, i := range c.items {
		if s := wire.Status(b.statuses[i]); b.charged[i] && s != wire.Stored && s != wire.Late {
			bytes += int64(b.space.blockBytes)
		}
	}
	c.part.drive.budget.Return(c.part.writes, bytes)
}

// refuse drops a block and keeps the reason.
func (b *batch) refuse(i int, why admit.Reason) {
	b.statuses[i] = byte(wire.Dropped)
	if b.reasons == nil {
		b.reasons = make([]byte, len(b.keys))
	}
	b.reasons[i] = byte(why)
}
