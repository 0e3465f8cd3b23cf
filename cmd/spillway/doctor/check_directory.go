package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/fio/units"
)

func directory(f *Facts, _ Plan) []Check {
	const name = "directory"
	switch {
	case f.DirErr != nil:
		return one(name, Bad, fmt.Sprintf("%s: %v", f.Asked, f.DirErr), "nothing below could be looked at; what follows is about the machine",
			"ls -ld "+shell(f.Asked))
	case errors.Is(f.ProbeErr, fs.ErrPermission):
		return one(name, Bad, fmt.Sprintf("%s: %v", f.Dir, f.ProbeErr), "a store's process must be able to write here; nothing could be tried out",
			`sudo chown "$(id -u)" `+shell(f.Dir))
	case f.ProbeErr != nil:
		return one(name, Bad, fmt.Sprintf("%s: %v", f.Dir, f.ProbeErr), "a store cannot work here; nothing could be tried out",
			"findmnt --target "+shell(f.Dir))
	case f.Missing > 1:
		return one(name, Bad, fmt.Sprintf("%s is not there, nor is the folder above it; looked at %s", f.Asked, f.Dir),
			"a store makes its directory, not the folders above it", "mkdir -p "+shell(filepath.Dir(f.Asked)))
	case f.Missing == 1:
		return one(name, OK, fmt.Sprintf("%s is not there yet; looked at %s", f.Asked, f.Dir), "the first put or replay with --capacity makes it", "")
	}
	return one(name, OK, f.Dir, "files can be made, written and removed here", "")
}

// store tells what is in the directory; only the store file is read.
func store(f *Facts, _ Plan) []Check {
	const name = "store"
	found := ""
	if f.Store != nil {
		found = fmt.Sprintf("store %s, capacity %s, %d namespaces, %d segments of %s, %d log files", f.Store.StoreID, units.Bytes(f.Store.CapacityBytes),
			len(f.Store.Namespaces), f.Segments, units.Bytes(f.Store.SegmentBytes), f.Logs)
	}
	switch {
	case f.DirErr != nil || f.Missing > 0:
		return nil
	case f.StoreErr != nil:
		return one(name, Bad, fmt.Sprintf("%s: %v", engine.StoreFileName, f.StoreErr), "no store opens here", "ls -l "+shell(filepath.Join(f.Dir, engine.StoreFileName)))
	case f.Store == nil && f.Stranger != "":
		return one(name, Bad, fmt.Sprintf("%q and no store file", f.Stranger), "a store is not made among the files of others", "mkdir "+shell(filepath.Join(f.Dir, "spillway")))
	case f.Store == nil && f.Segments+f.Logs > 0:
		return one(name, Bad, fmt.Sprintf("%d segments and %d log files without their store file", f.Segments, f.Logs),
			"it says what was erased, so nothing here is served without it; the blocks can be computed again", "rm -r "+shell(f.Dir))
	case f.Store == nil:
		return one(name, OK, "no store yet", "the first put or replay with --capacity makes one", "")
	}
	for _, flaw := range f.Store.Flaws {
		if flaw.Damage { // what a damaged file says of its version proves nothing
			return one(name, Bad, fmt.Sprintf("%s at offset %d: %s", engine.StoreFileName, flaw.Offset, flaw.Text),
				"the store does not open: what was erased is not known any more; the blocks can be computed again", "rm -r "+shell(f.Dir))
		}
	}
	if len(f.Store.Flaws) > 0 {
		return one(name, Bad, f.Store.Flaws[0].Text, "this program does not open the store", "spillway version")
	}
	if f.Segments > 0 && !f.Index {
		return one(name, Bad, found+"; the index is missing", "the commands refuse the store, and a program that opens it may use the blocks' room again",
			"spillway check "+shell(f.Dir)+" --rebuild")
	}
	if f.Holder != "" {
		return one(name, OK, found+"; in use by "+f.Holder,
			"what needs the lock was left out: index, log and blocks were not looked at (spillway check does, once that process has ended)", "")
	}
	return one(name, OK, found+"; nobody has it open", "only the store file was read (spillway check reads every byte)", "")
}

func space(f *Facts, plan Plan) []Check {
	const name = "space"
	if f.DirErr != nil {
		return nil
	}
	if f.SpaceErr != nil {
		return one(name, Warn, f.SpaceErr.Error(), "whether a store fits could not be told", "df "+shell(f.Dir))
	}
	free := fmt.Sprintf("%s free of %s", units.Bytes(f.Space.FreeBytes), units.Bytes(f.Space.TotalBytes))
	capacity, used := plan.CapacityBytes, f.UsedBytes
	if capacity == 0 && f.Store != nil {
		capacity = f.Store.CapacityBytes
	}
	if capacity == 0 {
		return one(name, OK, free, "give doctor the --capacity you plan, and it says whether it fits", "")
	}
	need := max(capacity-used, 0)
	found := fmt.Sprintf("%s; the store has %s and may grow by %s", free, units.Bytes(used), units.Bytes(need))
	switch {
	case need <= f.Space.FreeBytes:
		return one(name, OK, found, "the whole capacity fits", "")
	case f.Store == nil:
		return one(name, Bad, found, "a new store must fit its file system: it is refused",
			fmt.Sprintf("spillway doctor --capacity %dMiB %s", f.Space.FreeBytes>>20, shell(f.Asked)))
	}
	return one(name, Warn, found, "the file system is full before the store is: it gives segments up and goes on smaller", "du -xh --max-depth=2 "+shell(f.Mount.Point)+" | sort -h | tail")
}

// What a store opens at once beside its segments: index, log and sockets.
const otherFiles = 128

// segmentBytesOf is the size of a new store's segments, as Options.SegmentBytes
// of package engine says.
func segmentBytesOf(capacityBytes int64) int64 { return min(max(capacityBytes/64, 16<<20), 1<<30) }

func openFiles(f *Facts, plan Plan) []Check {
	capacity, segment := plan.CapacityBytes, segmentBytesOf(plan.CapacityBytes)
	if f.Store != nil && f.Store.SegmentBytes > 0 {
		segment = f.Store.SegmentBytes
		if capacity == 0 {
			capacity = f.Store.CapacityBytes
		}
	}
	need := uint64(max(capacity/segment, 64) + otherFiles)
	found := fmt.Sprintf("up to %d open files", f.FilesHard)
	if f.FilesHard == unlimited {
		found = "any number of open files"
	}
	if need <= f.FilesHard {
		return one("open files", OK, found, fmt.Sprintf("a store of this size wants about %d", need), "")
	}
	return one("open files", Bad, found, fmt.Sprintf("a store of this size wants about %d: it stops with too many open files", need),
		fmt.Sprintf("echo '* - nofile %d' | sudo tee /etc/security/limits.d/spillway-files.conf", max(need, 65536)))
}
