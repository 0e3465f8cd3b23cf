package pool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/cluster/member"
)

// logFiles is how many log files a node keeps at most: each holds that part of
// Options.Tombstones, and the oldest goes whole.
const logFiles = 8

// state is the directory of a node's pool state (docs/format/pool-state.md). Its methods
// are for one goroutine at a time.
type state struct {
	fs      vfs.FS
	dir     string
	lock    io.Closer
	file    stateFile // as it is on disk, its floors and lost as of the latest write
	perFile uint32
	log     *eraseLog
	counts  []logCount // by rising number, the newest last
	failed  error      // a write failed: nothing is written any more
}

// openState opens a node's pool state, or makes one, and says what is known. State that
// is damaged is set aside: what it knew of erasures has to be learned from others anew,
// under another origin; so is the state of a node that is another one by now.
func openState(fs vfs.FS, dir string, tombstones int, node member.ID, log *slog.Logger) (*state, *known, error) {
	if fs == nil {
		fs = vfs.Default
	}
	s := &state{fs: fs, dir: dir, perFile: uint32(max(tombstones/logFiles, 1))}
	k, err := s.open(node, log)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("pool state in %s: %w", dir, err), s.close())
	}
	return s, k, nil
}

func (s *state) open(node member.ID, log *slog.Logger) (k *known, err error) {
	if err := s.fs.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	// Or a power cut takes the directory, and all in it, away.
	if err := syncDir(s.fs, s.fs.PathDir(s.dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	if s.lock, err = s.fs.Lock(s.fs.PathJoin(s.dir, "POOL.lock")); err != nil {
		return nil, err
	}
	k = newKnown()
	if err = s.load(k); errors.Is(err, errStateDamaged) {
		log.Error("what this node knew of erasures is damaged and was set aside; it learns anew from the others", "dir", s.dir, "cause", err)
		k, err = s.startOver(k)
	}
	if err != nil {
		return nil, err
	}
	if s.file.id == ([16]byte{}) {
		rand.Read(s.file.id[:]) // never fails
		rand.Read(s.file.origin[:])
	} else if s.file.node != node {
		log.Warn("what is known of erasures was another node's", "dir", s.dir, "node", s.file.node)
		rand.Read(s.file.origin[:])
	}
	s.file.node = node
	s.file.starts++
	return k, s.begin(k)
}

// load reads what is there into k. Without a state it leaves s.file.first at 0.
func (s *state) load(k *known) error {
	b, err := readFile(s.fs, s.fs.PathJoin(s.dir, stateName))
	if errors.Is(err, errNotExist) {
		return s.loadNone()
	}
	if err != nil {
		return err
	}
	if s.file, err = decodeState(b); err != nil {
		return err
	}
	for _, m := range s.file.lost {
		k.addLost(m)
	}
	for _, f := range s.file.floors {
		k.raise(k.space(f.Namespace), f.Incarnation)
	}
	for n := s.file.first; n <= s.file.last; n++ {
		count := logCount{number: n, named: map[member.ID]int{}}
		records, written, err := readLog(s.fs, s.dir, s.file.id, n, n == s.file.last, func(r *logged) {
			k.add(r)
			count.named[r.origin]++
		})
		if err != nil {
			return err
		}
		s.counts = append(s.counts, count)
		if n == s.file.last {
			if written < s.file.written {
				return fmt.Errorf("%w: file %s ends after %d records, %d were durable", errStateDamaged, logName(n), written, s.file.written)
			}
			s.log = &eraseLog{number: n, records: records, written: written}
		}
	}
	return nil
}

// loadNone is for a directory without a state: files of a log with records say that there
// was one.
func (s *state) loadNone() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if logNumber(name) == 0 {
			continue
		}
		b, err := readFile(s.fs, s.fs.PathJoin(s.dir, name))
		if err != nil {
			return err
		}
		if len(b) > logHeaderBytes {
			return fmt.Errorf("%w: file %s is missing beside %s", errStateDamaged, stateName, name)
		}
	}
	return nil
}

// startOver sets a damaged state aside. What was certainly erased stays so: floors, and
// whatever had its effect on the stores before its names were lost.
func (s *state) startOver(found *known) (*known, error) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, damagedPrefix) {
			err = errors.Join(err, s.fs.Remove(s.fs.PathJoin(s.dir, name)))
		}
	}
	for _, name := range names {
		if number := logNumber(name); number > 0 || name == stateName {
			s.file.last = max(s.file.last, number)
			err = errors.Join(err, s.fs.Rename(s.fs.PathJoin(s.dir, name), s.fs.PathJoin(s.dir, damagedPrefix+name)))
		}
	}
	if err != nil {
		return nil, err
	}
	k := newKnown()
	for _, m := range s.file.lost {
		k.addLost(m)
	}
	for _, f := range found.floors() {
		k.raise(k.space(f.Namespace), f.Incarnation)
	}
	rand.Read(s.file.origin[:]) // never fails
	s.file.damages++
	s.file.pooled = true // for all that is known
	s.file.first, s.counts, s.log = 0, nil, nil
	return k, nil
}

const damagedPrefix = "damaged-"

// begin makes what is missing and writes the state, with one start more.
func (s *state) begin(k *known) (err error) {
	if s.file.first == 0 {
		s.file.first, s.file.last = s.file.last+1, s.file.last+1
		s.log, err = createLog(s.fs, s.dir, s.file.id, s.file.last, s.perFile, uint32(s.file.starts))
		s.counts = []logCount{{number: s.file.last, named: map[member.ID]int{}}}
	} else {
		s.log, err = reopenLog(s.fs, s.dir, s.log.number, s.log.records, s.log.written, uint32(s.file.starts))
	}
	if err != nil {
		return err
	}
	s.note(k)
	if err := s.replace(); err != nil {
		return err
	}
	return s.sweep()
}

// sweep removes what a run that was cut short has left.
func (s *state) sweep() error {
	names, err := s.fs.List(s.dir)
	for _, name := range names {
		if n := logNumber(name); name == stateNewName || n > 0 && (n < s.file.first || n > s.file.last) {
			err = errors.Join(err, s.fs.Remove(s.fs.PathJoin(s.dir, name)))
		}
	}
	return err
}

// note takes what k knows into the next write of the file POOL.
func (s *state) note(k *known) { s.file.floors, s.file.lost = k.floors(), k.lost() }

// replace writes s.file, atomically and durably.
func (s *state) replace() error {
	if s.failed != nil {
		return s.failed
	}
	s.file.sort()
	s.file.written = s.log.written
	fresh := s.fs.PathJoin(s.dir, stateNewName)
	f, err := s.fs.Create(fresh, vfs.WriteCategoryUnspecified)
	if err != nil {
		return s.fail(err)
	}
	_, err = f.Write(s.file.encode())
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return s.fail(err)
	}
	if err := s.fs.Rename(fresh, s.fs.PathJoin(s.dir, stateName)); err != nil {
		return s.fail(err)
	}
	return s.fail(syncDir(s.fs, s.dir))
}

// fail remembers the first error: after it nobody knows what is on disk.
func (s *state) fail(err error) error {
	if err != nil && s.failed == nil {
		s.failed = fmt.Errorf("the pool state in %s cannot be written: %w", s.dir, err)
	}
	return s.failed
}

// append makes records durable. There is room for them (see room).
func (s *state) append(records []logged) error {
	if s.failed != nil || len(records) == 0 {
		return s.failed
	}
	if err := s.log.append(records); err != nil {
		return s.fail(err)
	}
	count := s.counts[len(s.counts)-1]
	for i := range records {
		count.named[records[i].origin]++
	}
	return nil
}

// oldest is the log file that has to go before roll; false if none has to.
func (s *state) oldest() (logCount, bool) { return s.counts[0], len(s.counts) >= logFiles }

// roll goes on in a new log file. What the oldest has held, if that has to go, has been
// noted as lost.
func (s *state) roll() error {
	if s.failed != nil {
		return s.failed
	}
	next, err := createLog(s.fs, s.dir, s.file.id, s.file.last+1, s.perFile, uint32(s.file.starts))
	if err != nil {
		return s.fail(err)
	}
	full := s.log.file
	s.log = next
	s.file.last = next.number
	old, goes := s.oldest()
	if goes {
		s.file.first = old.number + 1
		s.counts = s.counts[1:]
	}
	s.counts = append(s.counts, logCount{number: next.number, named: map[member.ID]int{}})
	if err := errors.Join(full.Close(), s.replace()); err != nil {
		return s.fail(err)
	}
	if goes {
		return s.fail(s.fs.Remove(s.fs.PathJoin(s.dir, logName(old.number))))
	}
	return nil
}

func (s *state) close() error {
	var errs []error
	if s.log != nil && s.log.file != nil {
		errs = append(errs, s.log.file.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
