package engine_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/wal"
)

// fate is what one flipped byte of a kind leads to. Without any of its marks: a
// check finds it, the store opens, every block is served, and after a close
// nothing is wrong any more.
type fate struct {
	what string
	// nothing: the bytes hold nothing. A check may overlook the flip, and the
	// store opens and serves every block.
	nothing bool
	// refuses: the store may refuse to open, as damaged.
	refuses bool
	// misses: blocks may be lost.
	misses bool
	// stays: nobody writes these bytes again before the file goes, so the next
	// check finds the flip too; may: that depends.
	stays, mayStay bool
	// torn: in a store that was killed, a check may take the flip for a write
	// that was cut short, and what came after the last sync may be lost.
	torn bool
}

// span is a range of a file, of one fate.
type span struct {
	from, to int64
	fate
}

// flipMap says what each byte of each file in a store's directory is.
type flipMap struct {
	t    testing.TB
	used map[string]bool // places that hold a block
	// manifest is the index's list of files that counts.
	manifest string
}

// spans covers a file of n bytes without a gap; nil: nobody knows this kind of
// file. The attribute ATTR of a file is named FILE#ATTR. This is the list of what
// holds nothing:
//
//   - slots without a block, all of them, also of segments never written so far;
//   - spare log files, and what lies behind the newest frame of a log file in
//     use: zeros, or what is left of an earlier life;
//   - lists of files of the index that are not the newest;
//   - LOCK: who had the store last.
//
// Empty files have no byte to flip: LOCK, *.log and marker.* of the index.
func (m *flipMap) spans(name string, raw []byte) []span {
	n := int64(len(raw))
	whole := func(f fate) []span { return []span{{0, n, f}} }
	base := name[strings.LastIndex(name, "/")+1:]
	switch _, isSegment := engine.SegmentNumber(base); {
	case name == "SPILLWAY":
		return whole(fate{what: "store file", refuses: true, stays: true})
	case name == "DELETES":
		return whole(fate{what: "deletions"})
	case name == "BALLAST":
		return whole(fate{what: "ballast", stays: true})
	case name == "LOCK":
		return whole(fate{what: "lock", nothing: true})
	case isSegment:
		return m.segment(name, raw)
	case strings.HasSuffix(name, "#header"):
		return whole(fate{what: "mirror", stays: true})
	case isLog(name):
		return m.log(name, raw)
	case !strings.HasPrefix(name, "index/"):
		return nil
	case n == 0 && (base == "LOCK" || strings.HasPrefix(base, "marker.") || strings.HasSuffix(base, ".log")):
		return []span{}
	case strings.HasPrefix(base, "OPTIONS-"):
		return whole(fate{what: "index: options"})
	case strings.HasSuffix(base, ".sst"):
		return whole(fate{what: "index: table", refuses: true, misses: true, mayStay: true})
	case base == m.manifest:
		return whole(fate{what: "index: manifest", refuses: true, misses: true, mayStay: true, torn: true})
	case strings.HasPrefix(base, "MANIFEST-"):
		return whole(fate{what: "index: older manifest", nothing: true})
	}
	return nil
}

func (m *flipMap) segment(name string, raw []byte) []span {
	facts := engine.InspectSegment(raw, nil, int64(len(raw)), 0)
	if len(facts.Flaws) > 0 {
		m.t.Fatalf("%s: %v", name, facts.Flaws)
	}
	spans := []span{{0, 128, fate{what: "segment header", stays: true}}, {128, 4096, fate{what: "behind a segment header", stays: true}}}
	slot, block := int64(facts.SlotBytes), int64(facts.BlockBytes)
	at := int64(4096)
	for i := range facts.Slots {
		if !m.used[engine.MakePlace(facts.Number, i).String()] {
			spans = append(spans, span{at, at + slot, fate{what: "free slot", nothing: true}})
		} else {
			spans = append(spans, span{at, at + block, fate{what: "block", misses: true, torn: true}})
			if block < slot {
				spans = append(spans, span{at + block, at + slot, fate{what: "behind a block", stays: true, torn: true}})
			}
		}
		at += slot
	}
	for ; at < int64(len(raw)); at += 4096 {
		f := fate{what: "directory page", mayStay: true, torn: true}
		if len(bytes.Trim(raw[at:at+4096], "\x00")) == 0 {
			f.what = "directory page, never written"
		}
		spans = append(spans, span{at, at + 4096, f})
	}
	return spans
}

func (m *flipMap) log(name string, raw []byte) []span {
	number, _ := wal.FileNumber(name)
	var spans []span
	add := func(from, to int64, f fate) {
		if last := len(spans) - 1; last >= 0 && spans[last].what == f.what {
			spans[last].to = to
			return
		}
		spans = append(spans, span{from, to, f})
	}
	for s := range wal.Inspect(bytes.NewReader(raw), int64(len(raw)), number) {
		f := fate{what: "log, unused", nothing: true}
		switch {
		case s.Sight == wal.SightHeader && s.Header.Number == number:
			f = fate{what: "log header", torn: true}
		case s.Sight == wal.SightFrame:
			f = fate{what: "log frame", torn: true}
		case s.Sight == wal.SightTail || s.Sight == wal.SightGap:
			continue // they say something of the place that comes next
		}
		add(s.Offset, s.Offset+s.Bytes, f)
	}
	return spans
}

// tiles fails the test unless the spans cover n bytes without a gap.
func (m *flipMap) tiles(name string, spans []span, n int64) {
	m.t.Helper()
	at := int64(0)
	for _, s := range spans {
		if s.from != at || s.to < s.from {
			m.t.Fatalf("%s: nobody says what byte %d is", name, at)
		}
		at = s.to
	}
	if at != n || spans == nil {
		m.t.Fatalf("%s: nobody says what its %d bytes are from %d on", name, n, at)
	}
}
