package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spillway-kv/spillway/engine"
)

type lsCmd struct {
	storeFlags
	jsonFlag
	Namespace string `default:"default" help:"The namespace, by name or by the start of its ID."`
	Limit     int    `default:"1000" help:"Most blocks to list; 0 means all."`
}

// entryJSON is one block of a listing.
type entryJSON struct {
	Key      string `json:"key"`      // as text or hex:...; empty if it is lost
	Group    uint32 `json:"group"`    // cache group of the key
	Depth    uint32 `json:"depth"`    // in the chain, root 0
	Position uint64 `json:"position"` // log position of its put
	Place    string `json:"place"`    // segment and slot
}

// lsReport is the JSON of a listing.
type lsReport struct {
	Type       string      `json:"type"`        // ls
	Namespace  string      `json:"namespace"`   // as it was asked for
	BlockBytes int         `json:"block_bytes"` // size of every block
	Entries    []entryJSON `json:"entries"`     // the blocks
	More       bool        `json:"more"`        // the limit cut the list
}

func (*lsCmd) reports() []any { return []any{lsReport{}} }

func (c *lsCmd) run(_ context.Context, st *state) error {
	if c.Limit < 0 {
		return usagef("give 0 for all", "--limit %d is negative", c.Limit)
	}
	entries, more := []entryJSON{}, false
	blockBytes := 0
	err := withStore(c.options(st, c.JSON), func(s *engine.Store) error {
		ns, err := s.FindNamespace(c.Namespace)
		if err != nil {
			return err
		}
		blockBytes = ns.Descriptor().BlockBytes
		return ns.List(func(e engine.Entry) bool {
			if c.Limit > 0 && len(entries) == c.Limit {
				more = true
				return false
			}
			entries = append(entries, entryJSON{showKey(e.Key.Bytes), e.Key.Group, e.Depth, e.Position, e.Place.String()})
			return true
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(st.stdout, lsReport{"ls", c.Namespace, blockBytes, entries, more})
	}
	rows := [][]string{{"KEY", "GROUP", "DEPTH", "POSITION", "PLACE"}}
	for _, e := range entries {
		if e.Key == "" { // a rebuild could not name it
			e.Key = "(key lost)"
		}
		rows = append(rows, []string{e.Key, fmt.Sprint(e.Group), fmt.Sprint(e.Depth), strconv.FormatUint(e.Position, 10), e.Place})
	}
	if err := table(st.stdout, rows); err != nil {
		return err
	}
	if more {
		_, err = fmt.Fprintf(st.stderr, "there are more; --limit is %d\n", c.Limit)
	}
	return err
}
