package device

import (
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// uring is a psync with rings.
type uring struct{ *psync }

// RegisterMemory implements MemoryRegistrar.
func (d *uring) RegisterMemory(mem []byte) (release func(), err error) {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.closed {
		return nil, ErrClosed
	}
	if len(mem) == 0 {
		return func() {}, nil
	}
	if d.rings.memory == nil {
		return nil, &UnsupportedError{Dir: d.dir, FileSystem: d.facts.FileSystem,
			Problem: "this kernel cannot register buffers one by one", Remedy: "use Linux 5.19 or newer, or do without"}
	}
	regions, err := d.rings.memory.register(mem)
	if err == nil {
		return sync.OnceFunc(func() { d.rings.memory.release(regions) }), nil
	}
	if err == errOverlap {
		return nil, err
	}
	problem, remedy := lockedMemory(int64(len(mem))*int64(len(d.rings.all)), err)
	d.noteOnce("buffers stay unregistered, which costs processor time: " + problem + "; " + remedy)
	return nil, &UnsupportedError{Dir: d.dir, FileSystem: d.facts.FileSystem, Problem: problem, Remedy: remedy, Cause: err}
}

// noteOnce adds a note of which the part before the colon is new.
func (d *psync) noteOnce(text string) {
	kind, _, _ := strings.Cut(text, ":")
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, have := range d.facts.Notes {
		if strings.HasPrefix(have, kind+":") {
			return
		}
	}
	d.note(text)
}

// lockedMemory explains a refused registration.
func lockedMemory(needBytes int64, err error) (problem, remedy string) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return fmt.Sprintf("registering %d bytes failed (%v)", needBytes, err), "check the memory that is left"
	}
	return fmt.Sprintf("registering %d bytes failed (%v) under a limit of %d bytes of locked memory", needBytes, err, limit.Cur),
		"raise the limit (ulimit -l, LimitMEMLOCK= of a service, --ulimit memlock= of a container)"
}
