package result

import (
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what the process has used of the machine so far.
type Usage struct {
	User, System time.Duration
	Switches     int64 // of context, voluntary or not
	MajorFaults  int64
	MinorFaults  int64
}

// ProcessUsage asks the kernel. All threads count: goroutines move between them,
// so nothing finer can be told apart.
func ProcessUsage() Usage {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic("result: getrusage of the own process: " + err.Error())
	}
	return Usage{User: time.Duration(u.Utime.Nano()), System: time.Duration(u.Stime.Nano()),
		Switches: u.Nvcsw + u.Nivcsw, MajorFaults: u.Majflt, MinorFaults: u.Minflt}
}

// Since is what was used since before.
func (u Usage) Since(before Usage) Usage {
	return Usage{User: u.User - before.User, System: u.System - before.System, Switches: u.Switches - before.Switches,
		MajorFaults: u.MajorFaults - before.MajorFaults, MinorFaults: u.MinorFaults - before.MinorFaults}
}

// part is a share, 0 to 1.
func (u Usage) part(share float64) Usage {
	of := func(n int64) int64 { return int64(float64(n)*share + 0.5) }
	return Usage{User: time.Duration(of(int64(u.User))), System: time.Duration(of(int64(u.System))), Switches: of(u.Switches),
		MajorFaults: of(u.MajorFaults), MinorFaults: of(u.MinorFaults)}
}
