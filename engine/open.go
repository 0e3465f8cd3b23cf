package engine

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/frame"
	"github.com/spillway-kv/spillway/engine/table"
)

// Open opens the store in Options.Dir, or creates one. It returns only when
// the store is recovered and ready. Errors match ErrInUse, ErrNotAStore,
// ErrVersion, ErrCorrupt (store file), ErrConfig or an error of the system.
func Open(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	dev, indexFS, indexDir := o.Device, o.IndexFS, indexFolder
	if dev == nil {
		var err error
		if dev, err = openDirectory(o); err != nil {
			return nil, err
		}
		indexFS, indexDir = vfs.Default, filepath.Join(o.Dir, indexFolder)
	}
	s := &Store{opts: o, log: o.Logger, dev: dev, facts: dev.Facts(), started: time.Now(),
		segments: map[uint32]*segment{}, zombiePins: map[Place]int{}, mismatches: map[Place]uint64{}, proven: map[uint64]bool{},
		inflight: map[table.Ref]*readOp{}, progress: make(chan struct{}), nextNumber: 1,
		turns: turns{holdMax: holdMax}}
	s.devWaiting, _ = dev.(device.Waiting)
	s.leases.byID = map[LeaseID]*lease{}
	s.keep.want = map[*Namespace]bool{}
	s.transfersMax = o.QueueOps - max(o.QueueOps/4, queueReserve)
	s.keep.unlinking = make(chan struct{}, 1)
	s.segmentsMax = math.MaxInt32
	if o.Device == nil {
		var err error
		if s.segmentsMax, err = segmentsMax(); err != nil {
			return nil, errors.Join(err, s.abandon())
		}
	}
	if err := s.open(keepApart(indexFS, dev, &s.loaded), indexDir); err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	s.loaded.Store(true)
	return s, nil
}

// openDirectory takes the directory, translating the device's errors.
func openDirectory(o Options) (device.Device, error) {
	if err := checkDirectory(o); err != nil {
		return nil, err
	}
	dev, err := device.OpenDir(o.Dir, o.deviceOptions())
	var inUse *device.InUseError
	switch {
	case errors.As(err, &inUse):
		return nil, fmt.Errorf("%w: %w", ErrInUse, err)
	case errors.Is(err, fs.ErrNotExist) && (o.MustExist || o.CapacityBytes == 0):
		return nil, fmt.Errorf("%w: %w (a capacity is needed to create one)", ErrNotAStore, err)
	}
	return dev, err
}

func (o *Options) deviceOptions() device.Options {
	return device.Options{Engine: o.IOEngine, Rings: o.Rings, QueueDepth: o.QueueDepth, QueueOps: o.QueueOps,
		BufferedIO: o.BufferedIO, AnyFileSystem: o.AnyFileSystem, LockWait: o.LockWait,
		Create: !o.MustExist && o.CapacityBytes > 0, Logger: o.Logger}
}

// checkDirectory looks before anything is created or locked, so that a wrong
// directory is left exactly as it was.
func checkDirectory(o Options) error {
	entries, err := os.ReadDir(o.Dir)
	creating := o.CapacityBytes > 0 && !o.MustExist
	if errors.Is(err, fs.ErrNotExist) && creating {
		return newLayout(o.CapacityBytes, o.SegmentBytes).check()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: there is no directory %s (a capacity is needed to create a store)", ErrNotAStore, o.Dir)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == storeFileName {
			return nil
		}
	}
	for _, e := range entries {
		if !device.Reserved(e.Name()) {
			return fmt.Errorf("%w: %s holds %q and no store file %s; give an empty directory or that of a store",
				ErrNotAStore, o.Dir, e.Name(), storeFileName)
		}
	}
	if !creating {
		return fmt.Errorf("%w: %s is empty (a capacity is needed to create a store)", ErrNotAStore, o.Dir)
	}
	return newLayout(o.CapacityBytes, o.SegmentBytes).check()
}

// open does the work of Open in order; what it has built so far is abandoned
// by the caller on an error.
func (s *Store) open(indexFS vfs.FS, indexDir string) error {
	if err := s.openStoreFile(); err != nil {
		return err
	}
	frames, err := frame.NewPool(s.opts.FrameBytes)
	if err != nil {
		return err
	}
	s.frames = frames
	blocksMax, err := s.blocksMax()
	if err != nil {
		return err
	}
	if s.table, err = table.New(blocksMax); err != nil {
		return err
	}
	policies, err := s.opts.Policy(blocksMax)
	if err != nil {
		return fmt.Errorf("eviction order: %w", err)
	}
	s.policies = policies
	if s.recent, err = newRecentKeys(blocksMax); err != nil {
		return err
	}
	for _, r := range s.file.Namespaces {
		if err := s.checkMemory(r.Descriptor); err != nil {
			return err
		}
		ns, err := s.newNamespace(r)
		if err != nil {
			return err
		}
		s.addNamespaceLocked(ns) // nobody else is here yet
	}
	if s.resized { // not before: a capacity that is refused must leave no trace
		if before := s.capacityBefore; s.file.CapacityBytes < before {
			s.log.Warn("the capacity was lowered: the coldest blocks beyond it go", "before_bytes", before, "capacity_bytes", s.file.CapacityBytes)
		}
		if err := writeStoreFile(s.dev, &s.file); err != nil {
			return err
		}
	}
	s.keepBallast()
	if err := adoptIndex(indexFS, indexDir); err != nil {
		return err
	}
	if s.index, err = openIndex(indexFS, indexDir, s.log); err != nil {
		return err
	}
	if err := s.recover(); err != nil {
		return err
	}
	s.commit.start(s)
	s.keep.start(s)
	s.scrub.start(s)
	s.dirs.start(s)
	return nil
}

// openStoreFile reads the store's identity, or publishes a new one in an empty
// directory. A changed capacity is not yet written.
func (s *Store) openStoreFile() error {
	f, err := readStoreFile(s.dev)
	if err != nil {
		return err
	}
	capacity := s.opts.CapacityBytes
	if f == nil {
		if err := s.checkEmpty(); err != nil {
			return err
		}
		if capacity == 0 || s.opts.MustExist {
			return fmt.Errorf("%w: %s is empty; a capacity is needed to create a store", ErrNotAStore, s.opts.Dir)
		}
		l := newLayout(capacity, s.opts.SegmentBytes)
		if err := errors.Join(l.check(), s.checkRoom(capacity)); err != nil {
			return err
		}
		var id [16]byte
		rand.Read(id[:]) // never fails
		f = &storeFile{StoreID: hex.EncodeToString(id[:]), CapacityBytes: capacity,
			SegmentBytes: l.segmentBytes, LogFileBytes: l.logFileBytes}
		if err := writeStoreFile(s.dev, f); err != nil {
			return err
		}
	}
	if capacity != 0 && capacity != f.CapacityBytes {
		s.capacityBefore = f.CapacityBytes
		f.CapacityBytes = capacity
		l := layout{capacityBytes: capacity, segmentBytes: f.SegmentBytes, logFileBytes: f.LogFileBytes}
		if err := l.check(); err != nil {
			return err
		}
		s.resized = true
	}
	s.file = *f
	s.id = f.storeID()
	s.layout = layout{capacityBytes: f.CapacityBytes, segmentBytes: f.SegmentBytes, logFileBytes: f.LogFileBytes}
	return nil
}

// blocksMax is how many blocks the table must be able to hold: those that fit
// the capacity, and, if that was lowered, those in the segments found, since the
// coldest are known, and go, only after the table has been loaded.
func (s *Store) blocksMax() (int, error) {
	const smallest = BlockBytesMin + directoryBytesPerSlot + indexBytesPerSlot
	most := s.layout.segmentBudgetBytes() / smallest
	names, err := s.dev.List()
	if err != nil {
		return 0, err
	}
	_, slots := s.layout.shape(BlockBytesMin)
	found := int64(0)
	for _, name := range names {
		if _, ok := segmentNumber(name); ok {
			found += int64(slots)
		}
	}
	most = min(max(most, found), s.opts.IndexMemoryMaxBytes/indexBytesPerBlock)
	return int(max(most, 1)), nil
}

// checkRoom refuses a new store that the file system could not hold.
func (s *Store) checkRoom(capacityBytes int64) error {
	space, err := s.dev.Space()
	if err != nil {
		return err
	}
	if space.TotalBytes > 0 && space.FreeBytes < capacityBytes { // 0: a file system without a size
		return fmt.Errorf("%w: cannot reserve %d bytes in %s: the file system has %d free; give a smaller capacity or make room",
			ErrNoSpace, capacityBytes, s.opts.Dir, space.FreeBytes)
	}
	return nil
}

// checkEmpty refuses to make a store beside somebody else's files. Leftovers
// of a creation that was cut short are no obstacle: without a store file they
// belong to nobody.
func (s *Store) checkEmpty() error {
	names, err := s.dev.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		return fmt.Errorf("%w: %s holds %q and no store file %s; give an empty directory", ErrNotAStore, s.opts.Dir, name, storeFileName)
	}
	return nil
}
