package pool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/spillway-kv/spillway/cluster/member"
)

// eraseLog is the newest log file, to which records go.
type eraseLog struct {
	file    vfs.File
	number  uint32
	records uint32 // it has room for
	written uint32 // of them durable
	starts  uint32
}

// logCount is what an older log file holds: when it goes, so many erasures of each origin
// are not known by name any more.
type logCount struct {
	number uint32
	named  map[member.ID]int
}

// createLog makes a log file, durably.
func createLog(fs vfs.FS, dir string, state [16]byte, number, records, starts uint32) (*eraseLog, error) {
	name := fs.PathJoin(dir, logName(number))
	if err := fs.Remove(name); err != nil && !errors.Is(err, errNotExist) {
		return nil, err
	}
	f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt(encodeLogHeader(state, number, records), 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &eraseLog{file: f, number: number, records: records, starts: starts}, nil
}

var errNotExist = fs.ErrNotExist

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readFile is the whole of a file.
func readFile(fs vfs.FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// room is how many records fit.
func (l *eraseLog) room() int { return int(l.records - l.written) }

// append writes records behind the others; they are durable when it returns. After an
// error nobody knows which of them are: the file is not to be used any more.
func (l *eraseLog) append(records []logged) error {
	b := make([]byte, 0, len(records)*logRecordBytes)
	for i := range records {
		b = appendRecord(b, &records[i], stamp{number: l.number, synced: l.written, starts: l.starts})
	}
	if _, err := l.file.WriteAt(b, logHeaderBytes+int64(l.written)*logRecordBytes); err != nil {
		return err
	}
	if err := l.file.SyncData(); err != nil {
		return err
	}
	l.written += uint32(len(records))
	return nil
}

// readLog calls f for the records of a log file. last says that others may have been about
// to follow: then it may end anywhere.
func readLog(fs vfs.FS, dir string, state [16]byte, number uint32, last bool, f func(*logged)) (records, written uint32, err error) {
	b, err := readFile(fs, fs.PathJoin(dir, logName(number)))
	if errors.Is(err, errNotExist) {
		return 0, 0, fmt.Errorf("%w: file %s is missing", errStateDamaged, logName(number))
	}
	if err != nil {
		return 0, 0, err
	}
	if records, err = decodeLogHeader(b, state, number); err != nil {
		return 0, 0, err
	}
	b = b[logHeaderBytes:]
	var starts uint32
	for ; written < records && len(b) >= logRecordBytes; written++ {
		r, at, ok := decodeRecord(b, number)
		if !ok || at.starts < starts {
			break
		}
		starts = at.starts
		f(&r)
		b = b[logRecordBytes:]
	}
	if !last && written < records {
		return 0, 0, fmt.Errorf("%w: file %s ends after %d records of %d", errStateDamaged, logName(number), written, records)
	}
	for ; len(b) >= logRecordBytes; b = b[logRecordBytes:] {
		if _, at, ok := decodeRecord(b, number); ok && at.synced > written {
			return 0, 0, fmt.Errorf("%w: record %d of file %s, which was durable", errStateDamaged, written, logName(number))
		}
	}
	return records, written, nil
}

// reopenLog goes on with a log file that holds so many records.
func reopenLog(fs vfs.FS, dir string, number, records, written, starts uint32) (*eraseLog, error) {
	f, err := fs.OpenReadWrite(fs.PathJoin(dir, logName(number)), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil { // a killed process may have left them in memory only
		return nil, errors.Join(err, f.Close())
	}
	return &eraseLog{file: f, number: number, records: records, written: written, starts: starts}, nil
}
