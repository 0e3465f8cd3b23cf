package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/engine/machine"
	"github.com/spillway-kv/spillway/wal"
)

// unlimited is a limit that is none.
const unlimited = ^uint64(0)

// Facts are all that the checks look at.
type Facts struct {
	Asked   string // the directory as it was given
	Dir     string // what was looked at: Asked, or the nearest folder above that exists
	Missing int    // how many folders are missing below Dir
	DirErr  error  // Dir cannot be looked at

	Probed   device.Probed
	ProbeErr error
	Uring    error
	Holder   string // who has the store open; "" for nobody
	Space    device.Space
	SpaceErr error

	Store     *engine.StoreFileFacts // nil without a store file
	StoreErr  error
	Segments  int
	Logs      int
	Index     bool   // the folder of the index is there
	UsedBytes int64  // of the store's files
	Stranger  string // name of a file that is not a store's

	Kernel        string
	Container     string // what says that this is one; "" outside
	Mount         machine.Mount
	Drives        []machine.Drive // below the file system, as far as they can be told
	LockedSoft    uint64          // bytes of memory that may be locked
	LockedHard    uint64
	FilesHard     uint64 // open files; the soft limit is raised to it
	MayLock       bool   // CAP_IPC_LOCK: the limit of locked memory does not count
	Seccomp       string
	UringDisabled string
	HugePages     int64
	Transparent   string // the mode of transparent huge pages
	CPUs          string // that this process may use
	Nodes         []string
	RDMA          RDMAFacts
}

// Gather collects the facts. It leaves nothing in the directory and takes no
// lock.
func (m Machine) Gather(dir string) Facts {
	f := Facts{Asked: dir}
	f.Dir, f.Missing, f.DirErr = nearest(dir)
	if f.DirErr == nil {
		f.Probed, f.ProbeErr = m.Probe(f.Dir)
		f.Space, f.SpaceErr = m.Space(f.Dir)
		f.Mount = m.MountOf(f.Dir)
		f.Drives = m.DrivesOf(f.Mount)
		if f.Missing == 0 {
			f.Holder, _, _ = m.Holder(f.Dir)
			f.lookInside()
		}
	}
	f.Uring = m.Uring()
	f.Kernel = m.Text("proc/sys/kernel/osrelease")
	f.Container = m.container()
	f.LockedSoft, f.LockedHard = m.limits("Max locked memory")
	_, f.FilesHard = m.limits("Max open files")
	const capIPCLock = 14
	caps, _ := strconv.ParseUint(m.Field("proc/self/status", "CapEff:"), 16, 64)
	f.MayLock = caps>>capIPCLock&1 == 1
	f.Seccomp = m.Field("proc/self/status", "Seccomp:")
	f.CPUs = m.Field("proc/self/status", "Cpus_allowed_list:")
	f.UringDisabled = m.Text("proc/sys/kernel/io_uring_disabled")
	f.HugePages = m.Number("proc/sys/vm/nr_hugepages")
	f.Transparent = machine.Chosen(m.Text("sys/kernel/mm/transparent_hugepage/enabled"))
	f.Nodes = m.NUMANodes()
	f.RDMA = m.gatherRDMA()
	return f
}

// lookInside reads the store file and counts the files beside it.
func (f *Facts) lookInside() {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		f.StoreErr = err
		return
	}
	for _, e := range entries {
		_, isSegment := engine.SegmentNumber(e.Name())
		_, isLog := wal.FileNumber(e.Name())
		size := int64(0)
		if info, err := e.Info(); err == nil {
			size = info.Size()
		}
		switch {
		case isSegment:
			f.Segments++
			f.UsedBytes += size
		case isLog:
			f.Logs++
			f.UsedBytes += size
		case e.Name() == engine.StoreFileName:
			f.UsedBytes += size
			f.readStoreFile(size)
		case e.Name() == engine.IndexFolder && e.IsDir():
			f.Index = true
		case e.Name() == engine.DeletionsName || e.Name() == engine.BallastName:
			f.UsedBytes += size
		case !e.IsDir() && !device.Reserved(e.Name()):
			f.Stranger = e.Name()
		}
	}
}

// storeFileBytesMax bounds what is read of a store file.
const storeFileBytesMax = 64 << 20

func (f *Facts) readStoreFile(sizeBytes int64) {
	if sizeBytes > storeFileBytesMax {
		f.StoreErr = engine.ErrNotAStore
		return
	}
	b, err := os.ReadFile(filepath.Join(f.Dir, engine.StoreFileName))
	if err != nil {
		f.StoreErr = err
		return
	}
	facts, err := engine.InspectStoreFile(b)
	if err != nil {
		f.StoreErr = err
		return
	}
	f.Store = &facts
}

// limits reads a line such as "Max open files  1024  4096  files".
func (m Machine) limits(name string) (soft, hard uint64) {
	fields := strings.Fields(m.Field("proc/self/limits", name))
	read := func(i int) uint64 {
		if i >= len(fields) {
			return unlimited
		}
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return unlimited
		}
		return n
	}
	return read(0), read(1)
}

// container says what gives a container away.
func (m Machine) container() string {
	switch {
	case m.Exists(".dockerenv"):
		return "/.dockerenv"
	case m.Exists("run/.containerenv"):
		return "/run/.containerenv"
	case m.MountOf("/").Type == "overlay":
		return "an overlay at /"
	}
	return ""
}
