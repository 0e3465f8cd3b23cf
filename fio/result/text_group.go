package result

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
)

// groups writes the status of each group: what it moved in the time of its longest
// job, and the slowest and the fastest of its entries.
func (d *Document) groups(b *bytes.Buffer) {
	ids := map[int]bool{}
	for i := range d.Jobs {
		ids[d.Jobs[i].GroupID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		fmt.Fprintf(b, "\nRun status group %d (all jobs):\n", id)
		for direction, name := range []string{"   READ", "  WRITE", "   TRIM", "  MIXED"} {
			var g groupTotal
			for i := range d.Jobs {
				if j := &d.Jobs[i]; j.GroupID == id {
					g.add([]*Stats{j.Read, j.Write, j.Trim, j.Mixed}[direction])
				}
			}
			if g.entries == 0 {
				continue
			}
			all, allDecimal := sizes(uint64(g.bytesPerSecond()), "/s")
			low, lowDecimal := sizes(uint64(g.leastBytes), "/s")
			high, highDecimal := sizes(uint64(g.mostBytes), "/s")
			moved, movedDecimal := sizes(uint64(g.bytes), "")
			fmt.Fprintf(b, "%s: bw=%s (%s), %s-%s (%s-%s), io=%s (%s), run=%d-%dmsec\n", name,
				all, allDecimal, low, high, lowDecimal, highDecimal, moved, movedDecimal, g.leastMS, g.mostMS)
		}
	}
}
