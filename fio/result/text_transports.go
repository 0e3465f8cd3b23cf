package result

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/fio/compare"
)

// transportsText is the table of two transports.
func transportsText(b *bytes.Buffer, c *compare.Comparison) {
	if c == nil || len(c.Turns) == 0 {
		return
	}
	fmt.Fprintf(b, "\nRDMA against TCP, %d turns:\n", len(c.Turns))
	fmt.Fprintf(b, "  %-10s %12s %12s   %-20s %s\n", "", "rdma", "tcp", "rdma / tcp (mid 80 %)", "tcp / itself")
	for _, row := range TransportRows(c) {
		fmt.Fprintf(b, "  %-10s %12s %12s   %-20s  %s\n", row.Name, row.RDMA, row.TCP, row.Ratio, row.Itself)
	}
	fmt.Fprintf(b, "  processor time is of %s\n", strings.Join(c.CPUOf, ", "))
	if c.Doubt != "" {
		fmt.Fprintf(b, "  THIS DOES NOT COMPARE THE TWO: %s\n", c.Doubt)
	}
}

// TransportRow is one number of a comparison, as people read it.
type TransportRow struct{ Name, RDMA, TCP, Ratio, Itself string }

// TransportRows are the numbers of a comparison.
func TransportRows(c *compare.Comparison) []TransportRow {
	row := func(name string, r compare.Ratio, show func(float64) string) TransportRow {
		return TransportRow{name, show(r.RDMA), show(r.TCP), r.Ratio.String(), r.Itself.String()}
	}
	rate := func(v float64) string { binary, _ := sizes(uint64(v), "/s"); return binary }
	ns := func(v float64) string { return fio.FormatNS(int64(v)) }
	return []TransportRow{row("throughput", c.BW, rate), row("P50", c.P50, ns), row("P99", c.P99, ns),
		row("CPU per GB", c.CPU, func(v float64) string { return fmt.Sprintf("%.3f s", v) })}
}
