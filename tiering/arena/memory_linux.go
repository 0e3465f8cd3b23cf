package arena

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// hugePageBytes is what the size of all memory made here is a multiple of.
const hugePageBytes = 2 << 20

// wish is what is asked of the machine.
type wish struct {
	name   string // of memory to be shared, shown in /proc/PID/maps; "": nobody else sees it
	nBytes int64  // a multiple of hugePageBytes
	best   Pages  // the best kind to try; "" for PagesHugeTLB
	nodes  []int
}

func (w *wish) shared() bool { return w.name != "" }

// memory is mapped and populated. If it is shared it is a file without a name that nobody
// can resize.
type memory struct {
	file   *os.File // nil: private
	mapped []byte   // mem, and what is around it
	mem    []byte
	facts  Facts
}

// makeMemory takes the best kind of pages that the machine grants. An error
// leaves nothing behind.
func makeMemory(w wish) (*memory, error) {
	kinds := []Pages{PagesHugeTLB, PagesTHP, PagesSmall}
	first := 0
	if w.best != "" {
		if first = slices.Index(kinds, w.best); first < 0 {
			return nil, fmt.Errorf("arena: no pages are called %q", w.best)
		}
	}
	var notes []string
	for _, kind := range kinds[first:] {
		if kind == PagesTHP && !transparent(w.shared()) {
			notes = append(notes, noTransparent(w.shared()))
			continue
		}
		if kind != PagesHugeTLB {
			if err := EnoughMemory(w.nBytes); err != nil {
				return nil, err
			}
		}
		m, err := try(w, kind)
		if err == nil {
			m.facts.Notes = append(notes, m.facts.Notes...)
			return m, nil
		}
		if kind == PagesSmall || errors.Is(err, errNode) {
			return nil, err
		}
		notes = append(notes, fmt.Sprintf("no pages of kind %s (%v): copies and look-ups cost more; %s", kind, err, remedyFor(kind, w.nBytes)))
	}
	panic("arena: small pages were not tried")
}

func remedyFor(kind Pages, nBytes int64) string {
	if kind == PagesHugeTLB {
		return fmt.Sprintf("sysctl -w vm.nr_hugepages=%d reserves what this memory needs", nBytes/hugePageBytes)
	}
	return "dmesg says more"
}

// errNode: the NUMA nodes asked for cannot be had with any kind of page.
var errNode = errors.New("arena: these NUMA nodes cannot be bound to")

// try makes memory of one kind of page.
func try(w wish, kind Pages) (_ *memory, err error) {
	m := &memory{facts: Facts{Bytes: w.nBytes, Pages: kind}}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if !w.shared() {
		if err := m.mapPrivate(w.nBytes, kind); err != nil {
			return nil, err
		}
		return m, m.fill(w, kind)
	}
	if err := m.mapFile(w, kind); err != nil {
		return nil, err
	}
	if err := m.fill(w, kind); err != nil {
		return nil, err
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(m.file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return m, nil
}

// mapPrivate maps memory that is no file's: more kernels have huge pages for such.
func (m *memory) mapPrivate(nBytes int64, kind Pages) (err error) {
	const private = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	if kind == PagesHugeTLB {
		if m.mapped, err = unix.Mmap(-1, 0, int(nBytes), unix.PROT_READ|unix.PROT_WRITE, private|unix.MAP_HUGETLB|unix.MAP_HUGE_2MB); err != nil {
			return fmt.Errorf("mmap: %w", err)
		}
		m.mem = m.mapped
		return nil
	}
	// It begins where a huge page does. What is before and behind it stays out of reach, and
	// keeps the kernel from counting neighbours with it.
	if m.mapped, err = unix.Mmap(-1, 0, int(nBytes)+2*hugePageBytes, unix.PROT_NONE, private|unix.MAP_NORESERVE); err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	before := hugePageBytes - int(addressOf(m.mapped)%hugePageBytes)
	mem := m.mapped[before:][:nBytes:nBytes]
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return fmt.Errorf("mprotect: %w", err)
	}
	m.mem = mem
	return nil
}

// mapFile maps a new file.
func (m *memory) mapFile(w wish, kind Pages) error {
	fd, err := memfd(w.name, kind)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	m.file = os.NewFile(uintptr(fd), w.name)
	// Nobody else may open it anew through /proc/PID/fd.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return fmt.Errorf("fchmod: %w", err)
	}
	if err := unix.Ftruncate(fd, w.nBytes); err != nil {
		return fmt.Errorf("ftruncate: %w", err)
	}
	if m.mapped, err = unix.Mmap(fd, 0, int(w.nBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	m.mem = m.mapped
	return nil
}

func memfd(name string, kind Pages) (int, error) {
	const nameBytesMax = 200 // of the kernel's 249
	name = name[:min(len(name), nameBytesMax)]
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if kind == PagesHugeTLB {
		flags |= unix.MFD_HUGETLB | unix.MFD_HUGE_2MB
	}
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	return fd, err
}

// fill brings the pages in, of the right kind and from the right nodes.
func (m *memory) fill(w wish, kind Pages) error {
	switch kind {
	case PagesTHP:
		_ = unix.Madvise(m.mem, unix.MADV_HUGEPAGE) // what came of it is counted below
	case PagesSmall:
		_ = unix.Madvise(m.mem, unix.MADV_NOHUGEPAGE) // EINVAL: there are no others
	}
	if err := m.bind(w.nodes); err != nil {
		return err
	}
	if err := populate(m.mem); errors.Is(err, unix.EINVAL) {
		m.note("not populated: the kernel is older than 5.14; first uses are slow")
	} else if err != nil {
		return fmt.Errorf("populate: %w", err)
	}
	_ = unix.Madvise(m.mem, unix.MADV_DONTDUMP) // only keeps core files small
	switch kind {
	case PagesHugeTLB:
		m.facts.HugeBytes, m.facts.Locked = w.nBytes, true
		return nil
	case PagesTHP:
		if m.facts.HugeBytes = hugeBytes(m.mem); m.facts.HugeBytes < w.nBytes {
			m.note(fmt.Sprintf("%d of %d bytes are in huge pages: the rest costs more for each copy; a machine started anew has less scattered memory", m.facts.HugeBytes, w.nBytes))
		}
	}
	if err := unix.Mlock(m.mem); err != nil {
		m.note(fmt.Sprintf("not locked (%v): it may be swapped out until something registers it; LimitMEMLOCK=infinity, or ulimit -l unlimited, allows it", err))
	} else {
		m.facts.Locked = true
	}
	return nil
}

func (m *memory) bind(nodes []int) error {
	if len(nodes) == 0 {
		return nil
	}
	err := bind(m.mem, nodes)
	switch {
	case err == nil:
		m.facts.Nodes = slices.Clone(nodes)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
		m.note(fmt.Sprintf("not bound to NUMA nodes %v (%v): copies may cross sockets; a container needs --cap-add SYS_NICE", nodes, err))
	default:
		return fmt.Errorf("%w: %v: %w", errNode, nodes, err)
	}
	return nil
}

func (m *memory) note(text string) { m.facts.Notes = append(m.facts.Notes, text) }

// close gives the memory back; others who have it mapped keep it.
func (m *memory) close() {
	if m.mapped != nil {
		if err := unix.Munmap(m.mapped); err != nil {
			panic(fmt.Sprintf("arena: unmap: %v", err)) // it was mapped here
		}
		m.mapped, m.mem = nil, nil
	}
	if m.file != nil {
		_ = m.file.Close() // nothing was written through it
	}
}
