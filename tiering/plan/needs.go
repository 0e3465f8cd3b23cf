package plan

import "math"

// Needs is what a Row asks of drives, if its blocks are of this size. Rates are means
// over the trace.
type Needs struct {
	CapacityBytes       int64
	WriteBytesPerSecond float64
	ReadBytesPerSecond  float64 // of prefix hits
	WrittenPerHit       float64 // bytes written for each prefix hit
	DrivesByCapacity    int
	DrivesByEndurance   int     // so that none is written more than it stands
	DWPD                float64 // drive writes per day of so many drives as the capacity needs
	TBW                 float64 // terabytes written to each of them over the years
}

// Drive is the kind to buy.
type Drive struct {
	Bytes int64   // capacity
	DWPD  float64 // writes per day that it stands
	Years float64 // for so long
}

// Needs computes what a row needs over the span of its trace.
func (r *Row) Needs(blockBytes, spanMS int64, d Drive) Needs {
	seconds := max(float64(spanMS)/1000, 1)
	n := Needs{CapacityBytes: int64(r.Capacity) * blockBytes,
		WriteBytesPerSecond: float64(r.Writes) * float64(blockBytes) / seconds,
		ReadBytesPerSecond:  float64(r.PrefixHits) * float64(blockBytes) / seconds,
		WrittenPerHit:       r.WritesPerHit() * float64(blockBytes)}
	perDay := n.WriteBytesPerSecond * 86400
	n.DrivesByCapacity = max(int(math.Ceil(float64(n.CapacityBytes)/float64(d.Bytes))), 1)
	n.DrivesByEndurance = int(math.Ceil(perDay / (float64(d.Bytes) * d.DWPD)))
	n.DWPD = perDay / (float64(n.DrivesByCapacity) * float64(d.Bytes))
	n.TBW = perDay * 365 * d.Years / float64(n.DrivesByCapacity) / 1e12
	return n
}

// RestartCost compares the prefix hits in the minutes after a restart.
type RestartCost struct {
	Minutes          int
	Whole, Restarted int // prefix hits without and with it
}

// CostOf compares a row with one that was restarted, over so many minutes after.
func CostOf(whole, restarted *Row, minutes int) RestartCost {
	from := int(restarted.RestartMS / minuteMS)
	c := RestartCost{}
	for m := from; m < len(whole.Minutes) && c.Minutes < minutes; m++ {
		c.Minutes++
		c.Whole += whole.Minutes[m].PrefixHits
		c.Restarted += restarted.Minutes[m].PrefixHits
	}
	return c
}
