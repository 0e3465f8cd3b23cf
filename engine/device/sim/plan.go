package sim

import (
	"math/rand/v2"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
)

// Plan says which faults to inject. Each float64 is a probability per op; at
// most one fault besides Delay and StuckOnce befalls an op.
type Plan struct {
	// Filter picks the files at which the plan aims, by the name they were
	// opened with ("" for List and SyncDir). nil means all. It is called with
	// the Disk locked and must not call it.
	Filter func(name string) bool

	// ReadEIO: a read ends in EIO after some whole sectors, counted in N.
	ReadEIO float64
	// WriteEIO: a write ends in EIO after some whole sectors landed, counted in
	// N; a punch ends in EIO and changes nothing.
	WriteEIO float64
	// SyncEIO: a sync ends in EIO. Half of the times what it should have made
	// durable meets the fate of a power cut at once, and a later sync will not
	// tell; else it stays as uncertain as before.
	SyncEIO float64
	// MetaEIO: a call of Device or File that is not an op (Create, Open, Remove,
	// Rename, List, ReadFile, WriteFile, SyncDir, SetAttr, Attr) ends in EIO and
	// changes nothing.
	MetaEIO float64
	// ShortRead and ShortWrite: the transfer stops at a sector and is continued
	// by the device after another latency. Other ops may come between.
	ShortRead, ShortWrite float64
	// TruncatedRead: a read ends in io.ErrUnexpectedEOF after some whole
	// sectors; the memory beyond N is untouched.
	TruncatedRead float64
	// LostWrite: acknowledged, and nothing reaches the medium, whatever is synced.
	LostWrite float64
	// MisdirectedWrite: acknowledged, and lands at another aligned place of the
	// file or of another file that passes Filter.
	MisdirectedWrite float64
	// TornWrite: acknowledged, and some but not all of its sectors land. A write
	// of one sector cannot tear.
	TornWrite float64
	// BitRot: one bit of the range read flips on the medium, for good.
	BitRot float64
	// Delay: the op takes DelayBy longer. Default of DelayBy: 2 s.
	Delay   float64
	DelayBy time.Duration
	// StuckOnce: one op per plan stays in flight, and holds up any Close that
	// waits for it, until the next SetFaults, Kill or PowerCut.
	StuckOnce float64
}

// Counts are faults that took effect since NewDisk, named as in Plan.
type Counts struct {
	ReadEIO, WriteEIO, SyncEIO, MetaEIO            uint64
	ShortRead, ShortWrite, TruncatedRead           uint64
	LostWrite, MisdirectedWrite, TornWrite, BitRot uint64
	Delay, StuckOnce                               uint64
}

// SetFaults replaces the plan for ops and calls from now on, and lets the op
// that is stuck under the old one go on.
func (d *Disk) SetFaults(p Plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan, d.stuck = p, false
	d.planNo++
	d.changed.Broadcast()
}

// Injected returns how many faults took effect so far.
func (d *Disk) Injected() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

func (p *Plan) aimsAt(name string) bool { return p.Filter == nil || p.Filter(name) }

type fault uint8

const (
	noFault fault = iota
	eio
	short
	truncated
	lost
	misdirected
	torn
	rot
)

// drawLocked decides everything about p that is left to chance. It takes one
// number from the disk's sequence, whatever the plan.
func (d *Disk) drawLocked(p *pending) {
	p.rng = rand.New(newSource(d.rng.Uint64()))
	p.lands = p.rng.Uint64()&1 == 0
	p.latency = d.cfg.MinLatency
	if spread := int64(d.cfg.MaxLatency - d.cfg.MinLatency); spread > 0 {
		p.latency += time.Duration(p.rng.Int64N(spread + 1))
	}
	if !d.plan.aimsAt(p.file.name) {
		return
	}
	if hit(p.rng, d.plan.Delay) {
		p.delay = d.plan.DelayBy
		if p.delay == 0 {
			p.delay = 2 * time.Second
		}
	}
	if !d.stuck && hit(p.rng, d.plan.StuckOnce) {
		d.stuck, p.stuck, p.stuckPlan = true, true, d.planNo
	}
	d.drawFaultLocked(p)
}

func (d *Disk) drawFaultLocked(p *pending) {
	sectors := p.total / d.cfg.SectorBytes
	type chance struct {
		probability float64
		fault       fault
		sectorsMin  int
	}
	var chances []chance
	switch p.op.Kind {
	case device.Read:
		chances = []chance{{d.plan.ReadEIO, eio, 1}, {d.plan.TruncatedRead, truncated, 1},
			{d.plan.BitRot, rot, 1}, {d.plan.ShortRead, short, 2}}
	case device.Write:
		chances = []chance{{d.plan.WriteEIO, eio, 1}, {d.plan.LostWrite, lost, 1},
			{d.plan.MisdirectedWrite, misdirected, 1}, {d.plan.TornWrite, torn, 2}, {d.plan.ShortWrite, short, 2}}
	case device.Sync:
		chances = []chance{{d.plan.SyncEIO, eio, 0}}
	case device.Punch:
		chances = []chance{{d.plan.WriteEIO, eio, 0}}
	}
	for _, c := range chances {
		if sectors < c.sectorsMin || !hit(p.rng, c.probability) {
			continue
		}
		switch c.fault {
		case short:
			p.stopAt = d.cfg.SectorBytes * (1 + p.rng.IntN(sectors-1))
		case eio, truncated:
			if sectors > 0 {
				p.stopAt = d.cfg.SectorBytes * p.rng.IntN(sectors)
			}
		case misdirected:
			if !d.misdirectLocked(p) {
				continue // there is no other place
			}
		}
		p.fault = c.fault
		return
	}
}

// misdirectLocked points p at another place than it asked for.
func (d *Disk) misdirectLocked(p *pending) bool {
	align := int64(d.cfg.OffsetAlignBytes)
	target := p.ino
	if others := d.othersLocked(p); len(others) > 0 && p.rng.IntN(2) == 0 {
		target = others[p.rng.IntN(len(others))]
	}
	step := align
	if p.rng.IntN(2) == 0 {
		step = int64(p.total) // so that often a whole neighbour is overwritten
	}
	places := (target.size-int64(p.total))/step + 1
	if places < 1 {
		return false
	}
	at := p.rng.Int64N(places) * step
	if target == p.ino && at == p.op.Offset {
		if places == 1 {
			return false
		}
		at = (at + step) % (places * step)
	}
	p.ino, p.offset = target, at
	return true
}

// othersLocked lists the other files long enough to be hit by p.
func (d *Disk) othersLocked(p *pending) []*inode {
	var others []*inode
	for _, name := range d.sortedNamesLocked() {
		ino := d.names[name]
		if ino != p.ino && ino.size >= int64(p.total) && d.plan.aimsAt(name) {
			others = append(others, ino)
		}
	}
	return others
}

func hit(rng *rand.Rand, probability float64) bool {
	return probability > 0 && rng.Float64() < probability
}
