package engine

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/engine/frame"
	"github.com/spillway-kv/spillway/engine/table"
)

// Defaults of Options.
const (
	defaultIndexMemory = 1 << 30
	defaultFrameBytes  = 64 << 20
	defaultQueueOps    = 4096
	defaultLeaseShare  = 0.25
	indexBytesPerBlock = 96 // table and eviction order, at the worst load
)

func (o *Options) setDefaults() {
	setDefault(&o.IndexMemoryMaxBytes, defaultIndexMemory)
	setDefault(&o.FrameBytes, defaultFrameBytes)
	setDefault(&o.QueueDepth, 32)
	setDefault(&o.QueueOps, defaultQueueOps)
	setDefault(&o.SyncInterval, time.Second)
	setDefault(&o.LeaseMax, 60*time.Second)
	setDefault(&o.LeaseShare, defaultLeaseShare)
	setDefault(&o.LockWait, 5*time.Second)
	if o.NewPolicy == nil {
		o.NewPolicy = func(most int) evict.Policy { return evict.NewLRU(most) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports the first option that is out of range or contradicts another.
func (o Options) Validate() error {
	o.setDefaults()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	switch {
	case o.Dir == "" && o.Device == nil:
		return bad("no directory given")
	case (o.Device == nil) != (o.IndexFS == nil):
		return bad("Device and IndexFS go together")
	case o.CapacityBytes < 0 || o.SegmentBytes < 0:
		return bad("negative capacity %d or segment size %d", o.CapacityBytes, o.SegmentBytes)
	case o.SegmentBytes > segmentBytesMax:
		return bad("segment size %d is more than %d", o.SegmentBytes, segmentBytesMax)
	case o.IndexMemoryMaxBytes < 1<<20:
		return bad("index memory %d is less than 1 MiB", o.IndexMemoryMaxBytes)
	case o.FrameBytes < 2*BlockBytesMin:
		return bad("frame memory %d cannot hold two blocks", o.FrameBytes)
	case o.QueueDepth < 1 || o.QueueOps < 32 || o.QueueDepth > o.QueueOps:
		return bad("queue depth %d and queue length %d: want 1 <= depth <= length and length >= 32", o.QueueDepth, o.QueueOps)
	case o.SyncInterval < time.Millisecond:
		return bad("sync interval %v is less than 1ms", o.SyncInterval)
	case o.LeaseMax < 0 || o.LeaseShare < 0 || o.LeaseShare > 1:
		return bad("lease time %v or share %v", o.LeaseMax, o.LeaseShare)
	}
	return nil
}

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
		segments: map[uint32]*segment{}, zombiePins: map[Place]int{}, mismatches: map[Place]uint64{},
		inflight: map[table.Ref]*readOp{}, progress: make(chan struct{}), nextNumber: 1}
	s.leases.byID = map[LeaseID]*lease{}
	s.keep.want = map[*Namespace]bool{}
	s.transfersMax = o.QueueOps - o.QueueOps/4
	if err := s.open(indexFS, indexDir); err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	return s, nil
}

// openDirectory takes the directory, translating the device's errors.
func openDirectory(o Options) (device.Device, error) {
	if err := checkDirectory(o); err != nil {
		return nil, err
	}
	dev, err := device.OpenDir(o.Dir, device.Options{QueueDepth: o.QueueDepth, QueueOps: o.QueueOps,
		BufferedIO: o.BufferedIO, AnyFileSystem: o.AnyFileSystem, LockWait: o.LockWait,
		Create: !o.MustExist && o.CapacityBytes > 0, Logger: o.Logger})
	var inUse *device.InUseError
	switch {
	case errors.As(err, &inUse):
		return nil, fmt.Errorf("%w: %w", ErrInUse, err)
	case errors.Is(err, fs.ErrNotExist) && (o.MustExist || o.CapacityBytes == 0):
		return nil, fmt.Errorf("%w: %w (a capacity is needed to create one)", ErrNotAStore, err)
	}
	return dev, err
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
	smallest := segmentCostBytes(BlockBytesMin, 1) - headerBytes
	blocksMax := min(s.layout.segmentBudgetBytes()/smallest, s.opts.IndexMemoryMaxBytes/indexBytesPerBlock)
	if s.table, err = table.New(int(max(blocksMax, 1))); err != nil {
		return err
	}
	for _, r := range s.file.Namespaces {
		ns, err := s.newNamespace(r)
		if err != nil {
			return err
		}
		s.namespaces = append(s.namespaces, ns)
	}
	if s.index, err = openIndex(indexFS, indexDir, s.log); err != nil {
		return err
	}
	if err := s.recover(); err != nil {
		return err
	}
	s.commit.start(s)
	s.keep.start(s)
	return nil
}

// openStoreFile reads the store's identity, or publishes a new one in an empty
// directory.
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
		if err := l.check(); err != nil {
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
		f.CapacityBytes = capacity
		l := layout{capacityBytes: capacity, segmentBytes: f.SegmentBytes, logFileBytes: f.LogFileBytes}
		if err := l.check(); err != nil {
			return err
		}
		if err := writeStoreFile(s.dev, f); err != nil {
			return err
		}
	}
	s.file = *f
	s.id = f.storeID()
	s.layout = layout{capacityBytes: f.CapacityBytes, segmentBytes: f.SegmentBytes, logFileBytes: f.LogFileBytes}
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

// abandon releases what a failed open had built.
func (s *Store) abandon() error {
	var errs []error
	if s.wal != nil {
		errs = append(errs, s.wal.Close())
	}
	if s.apply.done != nil {
		s.apply.stop()
	}
	if s.index != nil {
		errs = append(errs, s.index.close())
	}
	return errors.Join(append(errs, s.releaseAll())...)
}

// releaseAll closes the files and gives the memory back.
func (s *Store) releaseAll() error {
	var errs []error
	for _, g := range s.segments {
		errs = append(errs, g.closeOnce())
	}
	for _, g := range s.removals {
		errs = append(errs, g.closeOnce())
	}
	errs = append(errs, s.dev.Close())
	for _, ns := range s.namespaces {
		evict.Free(ns.policy)
	}
	if s.table != nil {
		s.table.Free()
	}
	if s.frames != nil {
		s.frames.Free()
	}
	return errors.Join(errs...)
}

// Close waits for the calls and transfers in flight, makes everything durable
// and releases the directory. Calls begun later answer ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closing = true
	s.mu.Unlock()
	s.calls.Wait()

	close(s.keep.stop)
	<-s.keep.done
	close(s.commit.stop)
	<-s.commit.done
	var errs []error
	if err := s.wal.Close(); err != nil {
		errs = append(errs, fmt.Errorf("close the log: %w", err))
	}
	s.apply.stop()
	if err := s.index.close(); err != nil {
		errs = append(errs, fmt.Errorf("close the index: %w", err))
	}
	s.mu.Lock()
	if s.health != nil {
		errs = append(errs, fmt.Errorf("%w: %w", ErrReadOnly, s.health))
	}
	s.mu.Unlock()
	return errors.Join(append(errs, s.releaseAll())...)
}
