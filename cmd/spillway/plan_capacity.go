package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/fio/units"
	"github.com/spillway-kv/spillway/tiering/plan"
)

// capacities are the sizes to simulate.
type capacities []planSize

// planSize is a share of the unique blocks, or bytes.
type planSize struct {
	share float64
	bytes int64
	text  string
}

// UnmarshalText is called by the command line's parser.
func (c *capacities) UnmarshalText(text []byte) error {
	*c = nil
	for word := range strings.SplitSeq(string(text), ",") {
		size := planSize{text: strings.TrimSpace(word)}
		if number, is := strings.CutSuffix(size.text, "%"); is {
			share, err := strconv.ParseFloat(number, 64)
			if err != nil || !(share > 0 && share <= 100) {
				return fmt.Errorf("%q is no share between 0%% and 100%%", size.text)
			}
			size.share = share / 100
		} else {
			bytes, err := units.ParseBytes(size.text)
			if err != nil {
				return err
			}
			if bytes == 0 {
				return fmt.Errorf("%q: a capacity must be more than 0", size.text)
			}
			size.bytes = bytes
		}
		*c = append(*c, size)
	}
	return nil
}

// blocks is the capacity in blocks: never more than the trace has, which keeps
// everything, nor fewer than two.
func (s planSize) blocks(t *plan.Trace, blockBytes int64) int {
	if s.bytes == 0 {
		return t.CapacityOf(s.share)
	}
	return int(max(min(s.bytes/blockBytes, int64(t.Unique)), 2))
}
