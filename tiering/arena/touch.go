package arena

import (
	"runtime"
	"runtime/debug"
)

// Touch runs f, which reads or writes memory of the region with the processor,
// on this goroutine. If the client has taken away what f touches, f ends there
// and the answer is ErrRegionGone, now and at every later Touch and Acquire;
// what f had written until then stays. Any other panic of f goes on. f must not
// hold a lock that its end would leave locked. Touches of two regions nest. The
// caller has acquired the region.
func (r *Region) Touch(f func()) (err error) {
	if r.gone.Load() {
		return ErrRegionGone
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if !r.faultOf(p) {
			panic(p)
		}
		r.gone.Store(true)
		err = ErrRegionGone
	}()
	f()
	return nil
}

// faultOf reports whether a panic is a fault of the region's memory.
func (r *Region) faultOf(p any) bool {
	fault, ok := p.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		return false
	}
	start := addressOf(r.mem)
	return fault.Addr() >= start && fault.Addr()-start < uintptr(len(r.mem))
}
