package admit

import (
	"sync"
	"time"
)

const (
	// wearStep is how exactly a day is cut off, wearSteps how many make it.
	wearStep  = 5 * time.Minute
	wearSteps = int(wearDay / wearStep)
	wearDay   = 24 * time.Hour
	// wearTimeMin is how long a drive must have been watched before its writes are
	// projected.
	wearTimeMin = time.Minute
)

// Wear counts what was written to one drive in the last day.
type Wear struct {
	began time.Time

	mu    sync.Mutex
	steps [wearSteps]int64 // bytes; a ring
	step  int64            // number of the newest, from began
	total int64            // of all steps
}

// NewWear begins to count.
func NewWear(now time.Time) *Wear { return &Wear{began: now} }

// Wrote counts bytes of a write.
func (w *Wear) Wrote(now time.Time, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moveLocked(now)
	w.steps[w.step%int64(wearSteps)] += bytes
	w.total += bytes
}

// moveLocked forgets what is a day old.
func (w *Wear) moveLocked(now time.Time) {
	step := int64(now.Sub(w.began) / wearStep)
	if step-w.step >= int64(wearSteps) {
		w.step, w.total = step, 0
		clear(w.steps[:])
		return
	}
	for w.step < step {
		w.step++
		place := &w.steps[w.step%int64(wearSteps)]
		w.total -= *place
		*place = 0
	}
}

// Worn is a drive's day.
type Worn struct {
	Bytes int64         // written within Time
	Time  time.Duration // a day, exact to five minutes; less when it has not been counted for so long
}

// Day is the last day's writes.
func (w *Wear) Day(now time.Time) Worn {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moveLocked(now)
	first := max(w.step-int64(wearSteps)+1, 0)
	return Worn{w.total, now.Sub(w.began) - time.Duration(first)*wearStep}
}

// BytesPerDay projects the writes onto a whole day; 0 while they have been counted for
// less than a minute.
func (w Worn) BytesPerDay() float64 {
	if w.Time < wearTimeMin {
		return 0
	}
	return float64(w.Bytes) * wearDay.Seconds() / w.Time.Seconds()
}

// DrivesPerDay is BytesPerDay in drive writes per day (DWPD).
func (w Worn) DrivesPerDay(capacityBytes int64) float64 {
	if capacityBytes <= 0 {
		return 0
	}
	return w.BytesPerDay() / float64(capacityBytes)
}

// DaysLeft is for how many days a drive that may still be written so much lasts at
// this pace; 0 if that cannot be said.
func (w Worn) DaysLeft(enduranceBytes int64) float64 {
	if perDay := w.BytesPerDay(); perDay > 0 {
		return float64(enduranceBytes) / perDay
	}
	return 0
}
