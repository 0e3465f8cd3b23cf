package result

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/spillway-kv/spillway/fio/origin"
)

// OriginSpan are two looks at what a daemon counts of the blocks that it answers, or why
// there are none.
type OriginSpan struct {
	Daemon        string // path of its socket
	Before, After *origin.Counts
	Err           error
}

// Origin takes what the daemon of the worker's job has counted meanwhile.
func (r *Recorder) Origin(s OriginSpan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.origin = &s
}

// addOrigin takes in the span of another recorder: of one daemon the spans of jobs lie one
// behind the other, or over each other, and become one.
func (m *merged) addOrigin(s *OriginSpan) {
	if s == nil {
		return
	}
	i := slices.IndexFunc(m.origins, func(o OriginSpan) bool { return o.Daemon == s.Daemon })
	if i < 0 {
		m.origins = append(m.origins, *s)
		return
	}
	o := &m.origins[i]
	switch {
	case o.Err != nil:
	case s.Err != nil:
		o.Err = s.Err
	default:
		if s.Before.UptimeMS < o.Before.UptimeMS {
			o.Before = s.Before
		}
		if s.After.UptimeMS > o.After.UptimeMS {
			o.After = s.After
		}
	}
}

// originsOf are the spans in the document's form.
func originsOf(spans []OriginSpan) (all []*origin.Origin) {
	for _, s := range spans {
		if s.Err != nil {
			all = append(all, &origin.Origin{Daemon: s.Daemon, Error: s.Err.Error()})
			continue
		}
		all = append(all, origin.Between(s.Daemon, s.Before, s.After))
	}
	return all
}

func originText(b *bytes.Buffer, all []*origin.Origin) {
	for _, o := range all {
		fmt.Fprintf(b, "     blocks from: %s\n", o)
	}
}
