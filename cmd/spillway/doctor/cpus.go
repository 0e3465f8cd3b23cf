package doctor

import (
	"strconv"
	"strings"
)

// cpuSet reads a list such as 0-3,8.
func cpuSet(list string) map[int]bool {
	set := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		b := a
		if isRange && err == nil {
			b, err = strconv.Atoi(last)
		}
		const cpusMax = 1 << 16
		if err != nil || a < 0 || b > cpusMax {
			continue
		}
		for cpu := a; cpu <= b; cpu++ {
			set[cpu] = true
		}
	}
	return set
}
