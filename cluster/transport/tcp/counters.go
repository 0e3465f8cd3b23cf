package tcp

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// Counts are what a Transport has done since it was made, but Connections, which is of now.
type Counts struct {
	Connections  int64 // open now, those that were dialled and those that peers have made
	Dialled      int64 // links made
	DialsFailed  int64
	Served       int64 // links of peers taken in
	Foreign      int64 // hellos of another pool turned away
	Versions     int64 // hellos without a common version
	Certificates int64 // certificates refused, and handshakes of TLS that failed
	Plain        int64 // plain text where TLS is on, and TLS where it is off
	Noise        int64 // connections that said no hello, or a damaged one, or none in time
	Denied       int64 // hellos that the handler turned away
	Full         int64 // connections above the bound
	Busy         int64 // calls above a bound, answered with CodeBusy
	Panics       int64 // of handlers
	Faults       int64 // blocks whose memory was gone, own or a peer's client's
	Lost         int64 // links that ended otherwise than by Close
}

// counters are Counts as they grow.
type counters struct {
	dialled, dialsFailed, served, foreign, versions, certificates, plain, noise,
	denied, full, busy, panics, faults, lost atomic.Int64
	strangers sparing
}

// sparing keeps who comes again and again from filling the log: one line in a minute. All
// are counted.
type sparing struct{ next atomic.Int64 } // Unix time in ns

func (s *sparing) warn(to *slog.Logger, text string, args ...any) {
	now, next := time.Now().UnixNano(), s.next.Load()
	if now >= next && s.next.CompareAndSwap(next, now+int64(time.Minute)) {
		to.Warn(text, args...)
	} else {
		to.Debug(text, args...)
	}
}

// Counts says what has happened so far.
func (t *Transport) Counts() Counts {
	c := &t.counters
	t.mu.Lock()
	open := int64(0)
	for s := range t.sessions {
		s.mu.Lock()
		open += int64(len(s.conns))
		s.mu.Unlock()
	}
	t.mu.Unlock()
	return Counts{
		Connections: open, Dialled: c.dialled.Load(), DialsFailed: c.dialsFailed.Load(), Served: c.served.Load(),
		Foreign: c.foreign.Load(), Versions: c.versions.Load(), Certificates: c.certificates.Load(), Plain: c.plain.Load(),
		Noise: c.noise.Load(), Denied: c.denied.Load(), Full: c.full.Load(), Busy: c.busy.Load(),
		Panics: c.panics.Load(), Faults: c.faults.Load(), Lost: c.lost.Load(),
	}
}
