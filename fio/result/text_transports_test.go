package result

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/fio/compare"
	"github.com/spillway-kv/spillway/fio/origin"
	"github.com/spillway-kv/spillway/fio/spread"
)

// TestTransportsText: the table is there, its columns line up, and a doubt is loud.
func TestTransportsText(t *testing.T) {
	one := spread.Spread{Median: 1.5, Low: 1.25, High: 2}
	c := &compare.Comparison{Turns: make([]compare.Turn, 6), CPUOf: []string{"this process", "/s"}, Doubt: "none came",
		BW: compare.Ratio{RDMA: 3 << 30, TCP: 2 << 30, Ratio: one, Itself: one}, P50: compare.Ratio{RDMA: 1e6, TCP: 2e6}, CPU: compare.Ratio{RDMA: 0.25, TCP: 0.5}}
	var b bytes.Buffer
	transportsText(&b, c)
	for _, want := range []string{"RDMA against TCP, 6 turns", "3072MiB/s", "1.50 (1.25–2.00)", "0.250 s", "of this process, /s", "DOES NOT COMPARE THE TWO: none came"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	b.Reset()
	transportsText(&b, nil)
	originText(&b, []*origin.Origin{{Error: "gone"}})
	if b.String() != "     blocks from: not known: gone\n" {
		t.Errorf("%q", &b)
	}
}

// TestOriginSpans: spans of one daemon become one, and those of two stay apart.
func TestOriginSpans(t *testing.T) {
	at := func(uptime int64, hits string) *origin.Counts {
		c, err := origin.Parse([]byte(`{"namespaces": [{"hits": ` + hits + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		c.UptimeMS = uptime
		return &c
	}
	var m merged
	for _, s := range []*OriginSpan{{Daemon: "/a", Before: at(10, "5"), After: at(20, "9")}, nil, {Daemon: "/b", Before: at(1, "0"), After: at(2, "1")},
		{Daemon: "/a", Before: at(5, "2"), After: at(15, "7")}} {
		m.addOrigin(s)
	}
	all := originsOf(m.origins)
	if len(all) != 2 || all[0].Blocks != 7 || all[1].Blocks != 1 {
		t.Errorf("%v", all)
	}
	m.addOrigin(&OriginSpan{Daemon: "/a", Err: bytes.ErrTooLarge})
	if all := originsOf(m.origins); all[0].Error == "" {
		t.Errorf("%v", all[0])
	}
}
