package trace

import (
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"
)

// shape is what eviction.md measures on a trace.
type shape struct {
	requests, refs, unique      int
	spanMS                      int64
	rereferenced, seenOnce, hot float64 // shares: of references, of unique ids, of references to the hottest 1 %
	gapP50, gapP90              int64   // ms
	gapP99                      int64
	in50, in90, in99            int
	out50, out90, out99         int
}

func percentile[T int | int64](sorted []T, p float64) T { return sorted[int(p*float64(len(sorted)-1))] }

func measure(t testing.TB, src Source) shape {
	t.Helper()
	var s shape
	var gaps []int64
	var in, out []int
	count, last := map[uint64]int{}, map[uint64]int64{}
	for {
		q, err := src.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		s.requests++
		s.spanMS = q.TimestampMS
		in, out = append(in, q.InputLength), append(out, q.OutputLength)
		for _, id := range q.HashIDs {
			if count[id] > 0 {
				gaps = append(gaps, q.TimestampMS-last[id])
			}
			count[id]++
			last[id] = q.TimestampMS
		}
		s.refs += len(q.HashIDs)
	}
	s.unique = len(count)
	s.rereferenced = 1 - float64(s.unique)/float64(s.refs)
	var counts []int
	once := 0
	for _, n := range count {
		counts = append(counts, n)
		if n == 1 {
			once++
		}
	}
	slices.Sort(counts)
	hot := 0
	for _, n := range counts[len(counts)-len(counts)/100:] {
		hot += n
	}
	s.seenOnce, s.hot = float64(once)/float64(s.unique), float64(hot)/float64(s.refs)
	slices.Sort(gaps)
	slices.Sort(in)
	slices.Sort(out)
	s.gapP50, s.gapP90, s.gapP99 = percentile(gaps, .5), percentile(gaps, .9), percentile(gaps, .99)
	s.in50, s.in90, s.in99 = percentile(in, .5), percentile(in, .9), percentile(in, .99)
	s.out50, s.out90, s.out99 = percentile(out, .5), percentile(out, .9), percentile(out, .99)
	return s
}

// listSource gives out requests already read.
type listSource struct{ rest []Request }

func (l *listSource) Next() (Request, error) {
	if len(l.rest) == 0 {
		return Request{}, io.EOF
	}
	q := l.rest[0]
	l.rest = l.rest[1:]
	return q, nil
}

// TestShape holds generated traces to the measurements of the conversation
// trace, and LRU on them to its hit ratios there.
func TestShape(t *testing.T) {
	seeds := uint64(1)
	if os.Getenv("SPILLWAY_LONG") != "" {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			all, err := readAll(NewGenerator(Config{Seed: seed, Requests: 12_031}))
			if err != nil {
				t.Fatal(err)
			}
			s := measure(t, &listSource{all})
			checkShape(t, s)
			for _, row := range []struct{ share, want float64 }{{.01, .052}, {.05, .196}, {.10, .279}, {.25, .354}, {.50, .363}} {
				near(t, fmt.Sprintf("LRU hits at %.0f %%", 100*row.share), lruHits(all, s.unique, row.share), row.want, 0, .03)
			}
		})
	}
}

func checkShape(t *testing.T, s shape) {
	t.Helper()
	near(t, "requests", float64(s.requests), 12_031, 0, 0)
	near(t, "references per request", float64(s.refs)/float64(s.requests), 24.0, .12, 0)
	near(t, "span, s", float64(s.spanMS)/1000, 3_537, .08, 0)
	near(t, "re-referenced", s.rereferenced, .366, 0, .03) // three standard deviations of 24 seeds
	near(t, "seen once", s.seenOnce, .759, 0, .03)
	near(t, "share of the hottest 1 %", s.hot, .122, 0, .03)
	near(t, "gap P50, ms", float64(s.gapP50), 114_000, .15, 0)
	near(t, "gap P90, ms", float64(s.gapP90), 519_000, .20, 0)
	near(t, "gap P99, ms", float64(s.gapP99), 1_578_000, .30, 0)
	near(t, "input P50", float64(s.in50), 6_909, .10, 0)
	near(t, "input P90", float64(s.in90), 27_367, .18, 0)
	near(t, "input P99", float64(s.in99), 85_399, .35, 0)
	near(t, "output P50", float64(s.out50), 350, .05, 0)
	near(t, "output P90", float64(s.out90), 597, .08, 0)
	near(t, "output P99", float64(s.out99), 1_115, .15, 0)
}

// near wants got within a relative or an absolute distance of want.
func near(t *testing.T, what string, got, want, relative, absolute float64) {
	t.Helper()
	if math.Abs(got-want) > relative*want+absolute {
		t.Errorf("%s is %.4g, want %.4g within %g %% + %g", what, got, want, 100*relative, absolute)
	}
}

// TestGeneratedIDs wants every id always after the same predecessor, new ids
// dense in order of appearance, one id per started block, and time that never
// goes back.
func TestGeneratedIDs(t *testing.T) {
	before, next, previousMS := map[uint64]uint64{}, uint64(0), int64(0)
	g := NewGenerator(Config{Seed: 3, Requests: 5_000})
	for range 5_000 {
		q, err := g.Next()
		if err != nil {
			t.Fatal(err)
		}
		if len(q.HashIDs) != blocksOf(q.InputLength) || q.InputLength < 1 || q.OutputLength < 1 || q.TimestampMS < previousMS {
			t.Fatalf("bad request %+v after %d ms", q, previousMS)
		}
		previousMS = q.TimestampMS
		parent := uint64(math.MaxUint64)
		for _, id := range q.HashIDs {
			if was, known := before[id]; known && was != parent {
				t.Fatalf("id %d comes after %d and after %d", id, was, parent)
			} else if !known && id > next {
				t.Fatalf("new id %d, want at most %d", id, next)
			}
			before[id], parent, next = parent, id, max(next, id+1)
		}
		clear(q.HashIDs) // the caller owns it
	}
	if _, err := g.Next(); err != io.EOF {
		t.Errorf("after the last request: %v, want EOF", err)
	}
	if len(before) != int(next) {
		t.Errorf("%d ids up to %d", len(before), next)
	}
}

func TestGeneratorRepeats(t *testing.T) {
	generate := func(seed uint64) []Request {
		all, err := readAll(NewGenerator(Config{Seed: seed, Requests: 500}))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if !reflect.DeepEqual(generate(1), generate(1)) {
		t.Error("the same seed gave two traces")
	}
	if reflect.DeepEqual(generate(1), generate(2)) {
		t.Error("two seeds gave the same trace")
	}
}

// TestGeneratorSizes: fewer requests keep the span and about the re-use; a
// trace without end keeps the conversation trace's rate.
func TestGeneratorSizes(t *testing.T) {
	s := measure(t, NewGenerator(Config{Seed: 5, Requests: 1_500}))
	near(t, "re-referenced of 1,500", s.rereferenced, .366, 0, .06)
	near(t, "span of 1,500, s", float64(s.spanMS)/1000, 3_537, .2, 0)
	s = measure(t, NewGenerator(Config{Seed: 5, Requests: 1_500, SpanMS: 60_000}))
	if s.spanMS > 300_000 {
		t.Errorf("1,500 requests meant for a minute took %d ms", s.spanMS)
	}
	endless := NewGenerator(Config{Seed: 5})
	var atMS int64
	for range 30_000 {
		q, err := endless.Next()
		if err != nil {
			t.Fatal(err)
		}
		atMS = q.TimestampMS
	}
	near(t, "time of 30,000 endless requests, s", float64(atMS)/1000, 30_000/3.4, .15, 0)
}
