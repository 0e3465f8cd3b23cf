package admit

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

const mib = 1 << 20

func key(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// TestSights: the last keys are known, a new one hardly ever is, and what is known
// has a bound.
func TestSights(t *testing.T) {
	const capacity = 10000
	s := NewSights(capacity)
	if n := s.MemoryBytes(); n > 3*capacity+16 {
		t.Errorf("%d bytes for %d keys", n, capacity)
	}
	wrong := 0
	for n := range uint64(10 * capacity) {
		if s.Saw(1, key(n)) {
			wrong++
		}
		if back := n - capacity*3/4; n >= capacity && n%7 == 0 && !s.Saw(1, key(back)) {
			t.Fatalf("key %d is forgotten after %d others", back, n-back)
		}
	}
	if rate := float64(wrong) / (10 * capacity); rate > SightsFalseRate {
		t.Errorf("%.2f %% of new keys were taken for seen, at most %.2f %% are promised", 100*rate, 100*SightsFalseRate)
	}
	known := 0
	for n := range uint64(capacity) { // of long ago
		if s.Saw(1, key(n)) {
			known++
		}
	}
	if known > capacity/50 {
		t.Errorf("%d of %d old keys are known", known, capacity)
	}
	if s.Saw(2, key(10*capacity-1)) {
		t.Error("a key of another namespace is known")
	}
}

// greedy is a namespace that puts whenever it may.
type greedy struct {
	share *Share
	wrote int64
}

// TestBudgetHolds: whatever comes, in no window is more written than limit and burst
// allow, and what may be written is, if it is asked for.
func TestBudgetHolds(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		now := time.Unix(1e9, 0)
		var b Budget
		limit := Limit{BytesPerSecond: float64(1+rng.IntN(100)) * mib, Burst: time.Duration(1+rng.IntN(20)) * time.Second}
		b.SetLimits(now, limit)
		spaces := make([]greedy, 1+rng.IntN(4))
		for i := range spaces {
			spaces[i].share = b.NewShare(float64(1 + rng.IntN(9)))
		}
		type write struct {
			at    time.Time
			bytes int64
		}
		var all []write
		block := int64(1+rng.IntN(8)) * mib
		for range 20000 {
			now = now.Add(time.Duration(rng.IntN(20)) * time.Millisecond)
			s := &spaces[rng.IntN(len(spaces))]
			for b.Take(now, s.share, block) {
				if rng.IntN(10) == 0 {
					b.Return(s.share, block)
					break
				}
				all = append(all, write{now, block})
			}
		}
		sum, first := int64(0), 0
		for last := range all {
			sum += all[last].bytes
			for all[last].at.Sub(all[first].at) > 30*time.Second {
				sum -= all[first].bytes
				first++
			}
			allowed := limit.BytesPerSecond*(limit.Burst+30*time.Second).Seconds() + float64(len(spaces)+1)*float64(block)
			if float64(sum) > allowed {
				t.Fatalf("seed %d: %d bytes within 30 s, %.0f are allowed", seed, sum, allowed)
			}
		}
		total := int64(len(all)) * block
		if least := limit.BytesPerSecond * now.Sub(time.Unix(1e9, 0)).Seconds(); float64(total) < 0.95*least {
			t.Errorf("seed %d: %d bytes were written, the limit allows %.0f", seed, total, least)
		}
	}
}

// TestBudgetShares: who always wants gets what its weight says; who wants nothing
// leaves its share to the others; who comes late is not kept waiting.
func TestBudgetShares(t *testing.T) {
	now := time.Unix(1e9, 0)
	var b Budget
	b.SetLimits(now, Limit{100 * mib, time.Second}, Wears(1, 1<<50, time.Hour))
	light, heavy := greedy{share: b.NewShare(1)}, greedy{share: b.NewShare(3)}
	run := func(d time.Duration, who ...*greedy) {
		for end := now.Add(d); now.Before(end); now = now.Add(10 * time.Millisecond) {
			for _, g := range who {
				for b.Take(now, g.share, mib) {
					g.wrote += mib
				}
			}
		}
	}
	run(10*time.Second, &light) // alone: all of it
	if light.wrote < 990*mib || light.wrote > 1110*mib {
		t.Errorf("alone %d MiB in 10 s, 100 MiB/s are allowed", light.wrote/mib)
	}
	light.wrote, heavy.wrote = 0, 0
	run(20*time.Second, &light, &heavy)
	if ratio := float64(heavy.wrote) / float64(light.wrote); ratio < 2.7 || ratio > 3.4 {
		t.Errorf("%d and %d MiB, ratio %.2f, want 3", light.wrote/mib, heavy.wrote/mib, ratio)
	}
	b.SetWeight(light.share, 3)
	light.wrote, heavy.wrote = 0, 0
	run(20*time.Second, &light, &heavy)
	if ratio := float64(heavy.wrote) / float64(light.wrote); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("after the change ratio %.2f, want 1", ratio)
	}
}

// TestBudgetChanges: limits come and go while it is used, and a lone block larger
// than all that accrues is written some time.
func TestBudgetChanges(t *testing.T) {
	now := time.Unix(1e9, 0)
	var b Budget
	s := b.NewShare(1)
	if b.Limited() || !b.Take(now, s, 1<<40) {
		t.Error("limited without a limit")
	}
	b.SetLimits(now, Limit{mib, time.Second})
	if !b.Limited() || !b.Take(now, s, 64*mib) || b.Take(now, s, 1) {
		t.Error("the first block is too large, or the second is written")
	}
	if left, limited := b.Left(now); left != 0 || !limited {
		t.Errorf("%d left", left)
	}
	now = now.Add(70 * time.Second)
	if !b.Take(now, s, 64*mib) {
		t.Error("never again")
	}
	b.SetLimits(now, Limit{2 * mib, time.Second}) // the debt stays
	if b.Take(now.Add(time.Second), s, 1) && b.Take(now.Add(time.Second), s, 64*mib) && b.Take(now.Add(time.Second), s, 1) {
		t.Error("a new limit forgets what was written")
	}
	b.SetLimits(now, Limit{})
	if b.Limited() {
		t.Error("a limit of 0 is one")
	}
}

// TestWear: a day is the last 24 hours, no more, and is projected from less.
func TestWear(t *testing.T) {
	now := time.Unix(1e9, 0)
	w := NewWear(now)
	if d := w.Day(now); d.BytesPerDay() != 0 || d.DaysLeft(1) != 0 {
		t.Errorf("%+v before anything", d)
	}
	for range 60 * 60 { // an hour at 1 MiB a second
		now = now.Add(time.Second)
		w.Wrote(now, mib)
	}
	d := w.Day(now)
	if d.Bytes != 3600*mib || d.Time != time.Hour || d.BytesPerDay() != 24*3600*mib {
		t.Errorf("%+v after an hour", d)
	}
	if n := d.DrivesPerDay(24 * 3600 * mib); n != 1 {
		t.Errorf("%.2f drives a day", n)
	}
	if n := d.DaysLeft(240 * 3600 * mib); n != 10 {
		t.Errorf("%.2f days left", n)
	}
	now = now.Add(23*time.Hour + 30*time.Minute)
	if d := w.Day(now); d.Bytes < 1500*mib || d.Bytes > 1801*mib || d.Time > 24*time.Hour || d.Time < 24*time.Hour-wearStep {
		t.Errorf("%+v half an hour after the first are a day old", d)
	}
	if d := w.Day(now.Add(48 * time.Hour)); d.Bytes != 0 {
		t.Errorf("%+v after two idle days", d)
	}
}
