package node

import "golang.org/x/sys/unix"

// processNS is the processor time that this process has used, user and system together.
func processNS() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic("node: getrusage of the own process: " + err.Error())
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
