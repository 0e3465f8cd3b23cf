package page

import (
	"fmt"
	"strings"

	"github.com/spillway-kv/spillway/fio/compare"
	"github.com/spillway-kv/spillway/fio/result"
)

// transportsView is the comparison of two transports.
type transportsView struct {
	Doubt string
	Rows  []result.TransportRow
	Note  string
}

func transportsOf(c *compare.Comparison) *transportsView {
	if c == nil || len(c.Turns) == 0 {
		return nil
	}
	return &transportsView{Doubt: c.Doubt, Rows: result.TransportRows(c),
		Note: fmt.Sprintf("Medians of %d turns; ratios are of turns of one round, with their middle 80 %%. What TCP differs from itself is chance. Processor time is of %s.", len(c.Turns), strings.Join(c.CPUOf, ", "))}
}

// originsShown bounds the entries that say where their blocks came from.
const originsShown = 24

// origins say where the blocks of each job came from, those through a daemon.
func origins(d *result.Document) (all []fact) {
	for i := range d.Jobs {
		s := d.Jobs[i].Spillway
		if s == nil {
			continue
		}
		for _, o := range s.Origins {
			if len(all) == originsShown {
				return append(all, fact{"and more", "the JSON has them"})
			}
			all = append(all, fact{jobName(d, i), o.String()})
		}
	}
	return all
}
