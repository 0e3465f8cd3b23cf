package machine

import (
	"strconv"
	"strings"
)

// Activity is what a drive has done since it was found (the file stat of sysfs).
// Ticks are milliseconds.
type Activity struct {
	ReadIOs, ReadMerges, ReadSectors, ReadTicks     int64
	WriteIOs, WriteMerges, WriteSectors, WriteTicks int64
	BusyTicks                                       int64 // with anything in flight
	QueueTicks                                      int64 // of all I/Os, summed
}

// Activity reads it; ok is false where the drive does not tell.
func (s System) Activity(d Drive) (a Activity, ok bool) {
	var n [11]int64
	fields := strings.Fields(s.Text(d.dir, "stat"))
	if len(fields) < len(n) {
		return a, false
	}
	for i := range n {
		v, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return a, false
		}
		n[i] = v
	}
	return Activity{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[9], n[10]}, true
}

// Since is what the drive did after before.
func (a Activity) Since(before Activity) Activity {
	return Activity{a.ReadIOs - before.ReadIOs, a.ReadMerges - before.ReadMerges, a.ReadSectors - before.ReadSectors, a.ReadTicks - before.ReadTicks,
		a.WriteIOs - before.WriteIOs, a.WriteMerges - before.WriteMerges, a.WriteSectors - before.WriteSectors, a.WriteTicks - before.WriteTicks,
		a.BusyTicks - before.BusyTicks, a.QueueTicks - before.QueueTicks}
}
