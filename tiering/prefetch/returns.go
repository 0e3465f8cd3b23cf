package prefetch

import (
	"math"
	"time"
)

// returns learns at what rate chains come back, by how long they have been waiting, as
// the hazard policy does for blocks: per class and age, events over exposure.
type returns struct {
	events   [returnClasses][ageBuckets]float64
	exposure [returnClasses][ageBuckets]float64 // seconds of waiting
	total    [returnClasses]float64             // events
}

const (
	// Ages: the first bucket is a second wide, and each border 1.4 times the one before.
	ageBuckets = 24
	ageGrowth  = 1.4
	// Classes: how often a chain came back, and whether it was quick the last time.
	turnClasses   = 4
	returnClasses = turnClasses * 3
	quickGap      = time.Minute
	// Before anything is learned a chain comes back at priorRate * (turns + 1) /
	// (age + priorAge) a second, which counts as priorSeconds of observation.
	priorRate    = 0.3
	priorAge     = 30
	priorSeconds = 200
	// agingEvents: beyond so many, what was learned counts half.
	agingEvents = 1 << 14
)

var bucketLog = math.Log(ageGrowth)

// bucketOf is the bucket of an age: 1 s, 1.4 s, ... are the borders.
func bucketOf(age time.Duration) int {
	s := age.Seconds()
	if s < 1 {
		return 0
	}
	return min(1+int(math.Log(s)/bucketLog), ageBuckets-1)
}

func (c *chain) class() int {
	pace := 0
	switch {
	case c.gap > 0 && c.gap < quickGap:
		pace = 1
	case c.gap > 0:
		pace = 2
	}
	return min(c.turns, turnClasses-1)*3 + pace
}

// wait counts that a chain has been waiting until now.
func (r *returns) wait(c *chain, now time.Duration) {
	if waited := now - c.counted; waited > 0 {
		r.exposure[c.class()][bucketOf(now-c.last)] += waited.Seconds()
	}
	c.counted = now
}

// back counts that a chain has come back.
func (r *returns) back(c *chain, now time.Duration) {
	r.wait(c, now)
	class := c.class()
	r.events[class][bucketOf(now-c.last)]++
	r.total[class]++
	if r.total[class] > agingEvents {
		for b := range ageBuckets {
			r.events[class][b] /= 2
			r.exposure[class][b] /= 2
		}
		r.total[class] /= 2
	}
}

// rate is how likely a chain is to come back within the next second.
func (r *returns) rate(c *chain, now time.Duration) float64 {
	age := now - c.last
	class, b := c.class(), bucketOf(age)
	prior := priorRate * float64(min(c.turns, turnClasses-1)+1) / (age.Seconds() + priorAge)
	return (r.events[class][b] + priorSeconds*prior) / (r.exposure[class][b] + priorSeconds)
}
