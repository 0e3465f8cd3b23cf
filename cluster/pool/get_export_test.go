package pool

// AllFramesBack reports whether no private memory of loads is in use.
func (p *Pool) AllFramesBack() bool {
	if !p.frames.TryAcquire(p.o.FrameBytes) {
		return false
	}
	p.frames.Release(p.o.FrameBytes)
	return true
}

// AllRoomBack reports whether nothing is asked of any peer.
func (p *Pool) AllRoomBack() bool {
	for _, r := range p.peers.all() {
		if r.inFlight.Load() != 0 || len(r.calls) != 0 || !r.room.TryAcquire(p.o.InFlightBytes) {
			return false
		}
		r.room.Release(p.o.InFlightBytes)
	}
	return true
}
