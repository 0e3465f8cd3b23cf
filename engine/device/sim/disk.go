package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/engine/device"
)

var (
	// ErrInUse: the Disk is open in another session.
	ErrInUse = errors.New("sim: disk is in use")
	// ErrKilled: the session was ended by Kill or PowerCut.
	ErrKilled = errors.New("sim: process was killed")
)

// Config describes a Disk. Zero values mean the defaults named here.
type Config struct {
	// Seed decides every random outcome.
	Seed uint64
	// SectorBytes is what lands whole or not at all. Default 512.
	SectorBytes int
	// MemAlignBytes and OffsetAlignBytes are the device's Facts, powers of two.
	// Default 512, and SectorBytes, of which OffsetAlignBytes is a multiple.
	MemAlignBytes, OffsetAlignBytes int
	// QueueDepth is the number of ops in flight at once. Default 32.
	QueueDepth int
	// QueueOps bounds ops queued and in flight. Default 4096, at least QueueDepth.
	QueueOps int
	// CapacityBytes is the room for file content; beyond it calls and ops end
	// in ENOSPC. 0 means unlimited.
	CapacityBytes int64
	// MinLatency and MaxLatency bound an op's time in flight, uniformly drawn.
	MinLatency, MaxLatency time.Duration
	// NoXattrs takes the support for attributes away.
	NoXattrs bool
	// Faults is the first plan; see SetFaults.
	Faults Plan
}

func (c Config) withDefaults() Config {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&c.SectorBytes, 512)
	set(&c.MemAlignBytes, 512)
	set(&c.OffsetAlignBytes, c.SectorBytes)
	set(&c.QueueDepth, 32)
	set(&c.QueueOps, max(4096, c.QueueDepth))
	c.MaxLatency = max(c.MaxLatency, c.MinLatency)
	powerOfTwo := func(v int) bool { return v > 0 && v&(v-1) == 0 }
	if !powerOfTwo(c.SectorBytes) || c.SectorBytes > pageBytes || !powerOfTwo(c.MemAlignBytes) ||
		!powerOfTwo(c.OffsetAlignBytes) || c.OffsetAlignBytes < c.SectorBytes {
		panic(fmt.Sprintf("sim: SectorBytes %d, MemAlignBytes %d, OffsetAlignBytes %d: each must be a power of two, the first at most %d and the last",
			c.SectorBytes, c.MemAlignBytes, c.OffsetAlignBytes, pageBytes))
	}
	if c.QueueDepth < 1 || c.QueueOps < c.QueueDepth || c.CapacityBytes < 0 || c.MinLatency < 0 {
		panic(fmt.Sprintf("sim: QueueDepth %d, QueueOps %d, CapacityBytes %d, MinLatency %v: out of range",
			c.QueueDepth, c.QueueOps, c.CapacityBytes, c.MinLatency))
	}
	return c
}

// Disk is a simulated medium. All methods may be called from many goroutines.
type Disk struct {
	cfg Config

	mu      sync.Mutex
	changed *sync.Cond // on mu: an op ended, the plan changed, the session died
	source  *rand.PCG  // of rng
	rng     *rand.Rand
	plan    Plan
	planNo  uint64 // number of the plan; an op stuck under an older one goes on
	stuck   bool   // the plan's one stuck op has been chosen
	counts  Counts
	session *session // nil while nobody has the disk open

	lastInode uint64
	names     map[string]*inode // the directory as a process sees it
	stable    map[string]*inode // the directory as of the last SyncDir
	journal   []change          // what leads from stable to names, oldest first
}

// NewDisk makes an empty disk. A Config that contradicts itself panics.
func NewDisk(c Config) *Disk {
	c = c.withDefaults()
	d := &Disk{cfg: c, plan: c.Faults, names: map[string]*inode{}, stable: map[string]*inode{}}
	d.changed = sync.NewCond(&d.mu)
	d.Reseed(c.Seed)
	return d
}

// Reseed restarts the random decisions from seed.
func (d *Disk) Reseed(seed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.source = newSource(seed)
	d.rng = rand.New(d.source)
}

func newSource(seed uint64) *rand.PCG { return rand.NewPCG(seed, 0x5b111a4) }

// Open mounts the disk: ErrInUse while another session holds it. The Device is
// a full device.Device; its Close waits for every Done.
func (d *Disk) Open() (device.Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session != nil {
		return nil, ErrInUse
	}
	d.session = &session{d: d, dead: make(chan struct{}), files: map[*file]struct{}{}}
	return d.session, nil
}

// Kill ends the session as SIGKILL ends a process. Queued ops are lost; ops in
// flight each land or not. When Kill returns the medium is final, no buffer is
// written to any more, and the disk can be opened again. Every op still gets
// its Done, with ErrKilled, on the session's own goroutines; Kill does not wait
// for them (so a Done may call it), the dead Device's Close does. All other
// calls of the dead session answer ErrKilled. Without a session nothing happens.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.killLocked()
}

func (d *Disk) killLocked() {
	s := d.session
	if s == nil {
		return
	}
	for _, p := range s.flying {
		if !p.over && p.lands && p.op.Kind != device.Read {
			for d.stepLocked(p) {
			}
		}
	}
	s.killed = true
	close(s.dead)
	d.session = nil
	d.changed.Broadcast()
}

// PowerCut is Kill and the loss of what was not durable, as the package comment
// tells. Mostly each unsynced change has its own fate; some cuts lose all of
// them and some none.
func (d *Disk) PowerCut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.killLocked()
	c := newCut(d.rng)
	for _, ino := range d.inodesLocked() {
		ino.powerCut(c, d.cfg.SectorBytes)
	}
	d.cutNamesLocked(c)
}
