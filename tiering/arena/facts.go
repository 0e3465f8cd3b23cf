package arena

import (
	"fmt"
	"strings"
)

// Pages says what memory is made of.
type Pages string

// The kinds of pages, best first.
const (
	PagesHugeTLB Pages = "hugetlb" // reserved pages of 2 MiB
	PagesTHP     Pages = "thp"     // transparent huge pages, as far as the kernel has them
	PagesSmall   Pages = "4k"      // the machine's small pages
)

// Facts say what the machine granted.
type Facts struct {
	Bytes     int64    // size of the memory
	Pages     Pages    // what it is made of
	HugeBytes int64    // of it in pages of 2 MiB
	Nodes     []int    // NUMA nodes that it is bound to; none: wherever the kernel put it
	Locked    bool     // it is never swapped out
	Notes     []string // what was not granted: why, what it costs, what mends it
}

// String is one line for the log, without the notes.
func (f Facts) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d bytes, pages %s, %d bytes in huge pages, ", f.Bytes, f.Pages, f.HugeBytes)
	if len(f.Nodes) > 0 {
		fmt.Fprintf(&b, "on NUMA nodes %v, ", f.Nodes)
	}
	if !f.Locked {
		b.WriteString("not ")
	}
	b.WriteString("locked")
	return b.String()
}
