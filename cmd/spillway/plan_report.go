package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spillway-kv/spillway/engine/evict"
	"github.com/spillway-kv/spillway/fio/units"
	"github.com/spillway-kv/spillway/tiering/plan"
)

// planRow is one simulation.
type planRow struct {
	Policy         string       `json:"policy"`            // eviction policy
	Capacity       string       `json:"capacity"`          // as it was asked for
	CapacityBlocks int          `json:"capacity_blocks"`   // the same in blocks
	References     int          `json:"references"`        // blocks named by all requests
	Hits           int          `json:"hits"`              // of them present
	PrefixHits     int          `json:"prefix_hits"`       // of them present with all blocks before them
	Writes         int          `json:"writes"`            // blocks stored
	HitRatio       float64      `json:"hit_ratio"`         // hits per reference
	PrefixHitRatio float64      `json:"prefix_hit_ratio"`  // prefix hits per reference
	WritesPerRef   float64      `json:"writes_per_ref"`    // blocks stored per reference
	WritesPerHit   float64      `json:"writes_per_hit"`    // blocks stored per prefix hit
	Needs          *planNeeds   `json:"needs,omitempty"`   // with --model or --block-bytes: what drives it asks for
	Restart        *planRestart `json:"restart,omitempty"` // with --restart-at
}

// planNeeds is what a row asks of drives.
type planNeeds struct {
	CapacityBytes       int64   `json:"capacity_bytes"`         // of all drives together
	WriteBytesPerSecond float64 `json:"write_bytes_per_second"` // mean over the trace
	ReadBytesPerSecond  float64 `json:"read_bytes_per_second"`  // of prefix hits, mean over the trace
	WrittenPerHit       float64 `json:"written_bytes_per_hit"`  // for each prefix hit
	DrivesByCapacity    int     `json:"drives_by_capacity"`     // that hold the capacity
	DrivesByEndurance   int     `json:"drives_by_endurance"`    // that stand the writes
	DWPD                float64 `json:"dwpd"`                   // drive writes per day of as many drives as hold the capacity
	TBW                 float64 `json:"tbw"`                    // terabytes written to each of them in five years
}

// planRestart compares the minutes after a restart.
type planRestart struct {
	Minutes             int     `json:"minutes"`               // compared
	PrefixHits          int     `json:"prefix_hits"`           // without a restart
	PrefixHitsRestarted int     `json:"prefix_hits_restarted"` // with it
	PrefixHitRatio      float64 `json:"prefix_hit_ratio"`      // of the whole trace, with it
	PerMinute           []int   `json:"per_minute"`            // prefix hits of each minute of the trace without a restart
	PerMinuteRestarted  []int   `json:"per_minute_restarted"`  // with it
}

// planPlacement is one way to place blocks on nodes.
type planPlacement struct {
	Placement       string  `json:"placement"`         // per block, per run or local
	Nodes           int     `json:"nodes"`             // of the pool
	Lose            int     `json:"lose"`              // lost at once
	Kept            float64 `json:"kept"`              // part of the prefix hits in the first minute after the loss
	NodesPerRequest float64 `json:"nodes_per_request"` // that hold a request's prefix
	Balance         float64 `json:"balance"`           // blocks of the fullest node over the mean
}

// planReport is the JSON of a plan.
type planReport struct {
	Type          string          `json:"type"`                 // plan
	Trace         string          `json:"trace"`                // its file; empty: generated
	Requests      int             `json:"requests"`             // of the trace
	References    int             `json:"references"`           // blocks named by all requests
	Unique        int             `json:"unique_blocks"`        // different blocks
	SpanMS        int64           `json:"span_ms"`              // from the first request to the last
	Ceiling       float64         `json:"ceiling"`              // hits per reference of a store that keeps everything
	Admit         string          `json:"admit"`                // which blocks are stored
	Model         string          `json:"model,omitempty"`      // whose blocks they are
	BlockBytes    int64           `json:"block_bytes"`          // 0: unknown
	DefaultPolicy string          `json:"default_policy"`       // of a store that is told no other
	Rows          []planRow       `json:"rows"`                 // by policy, then capacity
	Placements    []planPlacement `json:"placements,omitempty"` // with --nodes

	restartAt time.Duration
}

func (c *planCmd) newReport(t *plan.Trace, rows []*plan.Row, plain int, blockBytes int64) *planReport {
	r := &planReport{Type: "plan", Trace: c.Trace, Requests: t.Requests(), References: len(t.Blocks), Unique: t.Unique, SpanMS: t.SpanMS(),
		Ceiling: 1 - float64(t.Unique)/float64(len(t.Blocks)), Admit: c.Admit, Model: c.Model, BlockBytes: blockBytes,
		DefaultPolicy: evict.Default, restartAt: c.RestartAt}
	for i, row := range rows[:plain] {
		out := planRow{Policy: row.Policy, Capacity: c.Capacity[i%len(c.Capacity)].text, CapacityBlocks: row.Capacity,
			References: row.References, Hits: row.Hits, PrefixHits: row.PrefixHits, Writes: row.Writes, HitRatio: row.HitRatio(),
			PrefixHitRatio: row.PrefixHitRatio(), WritesPerRef: row.WritesPerRef(), WritesPerHit: row.WritesPerHit()}
		if blockBytes > 0 {
			n := planNeeds(row.Needs(blockBytes, t.SpanMS(), plan.Drive{Bytes: int64(c.DriveCapacity), DWPD: c.DriveDWPD, Years: driveYears}))
			out.Needs = &n
		}
		if plain < len(rows) {
			again := rows[plain+i]
			cost := plan.CostOf(row, again, restartMinutes)
			out.Restart = &planRestart{cost.Minutes, cost.Whole, cost.Restarted, again.PrefixHitRatio(), perMinute(row), perMinute(again)}
		}
		r.Rows = append(r.Rows, out)
	}
	return r
}

func perMinute(row *plan.Row) (hits []int) {
	for _, m := range row.Minutes {
		hits = append(hits, m.PrefixHits)
	}
	return hits
}

func (r *planReport) print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n\n", r.headline()); err != nil {
		return err
	}
	if err := table(w, r.hits()); err != nil {
		return err
	}
	if r.BlockBytes > 0 {
		what := fmt.Sprintf("blocks of %s", units.Bytes(r.BlockBytes))
		if r.Model != "" {
			what += " of " + r.Model
		}
		if _, err := fmt.Fprintf(w, "\nDrives, for %s:\n", what); err != nil {
			return err
		}
		if err := table(w, r.drives()); err != nil {
			return err
		}
	}
	if r.Placements == nil {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\n%d of %d nodes lost:\n", r.Placements[0].Lose, r.Placements[0].Nodes); err != nil {
		return err
	}
	return table(w, r.placements())
}

func (r *planReport) headline() string {
	return fmt.Sprintf("%s in %v, %d block references, %d unique blocks: at most %.1f %% hits", units.Count(int64(r.Requests), "request"),
		(time.Duration(r.SpanMS) * time.Millisecond).Round(time.Second), r.References, r.Unique, 100*r.Ceiling)
}

// policy is the row's, marked if it is the default.
func (r *planReport) policy(row *planRow) string {
	if row.Policy == r.DefaultPolicy {
		return row.Policy + " (default)"
	}
	return row.Policy
}

func (r *planReport) hits() [][]string {
	rows := [][]string{{"POLICY", "CAPACITY", "BLOCKS", "PREFIX HITS", "HITS", "WRITES/100", "WRITES/HIT"}}
	if r.restartAt > 0 {
		rows[0] = append(rows[0], fmt.Sprintf("HITS KEPT %d MIN AFTER A RESTART", restartMinutes))
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := []string{r.policy(row), row.Capacity, strconv.Itoa(row.CapacityBlocks), percent(row.PrefixHitRatio), percent(row.HitRatio),
			fmt.Sprintf("%.1f", 100*row.WritesPerRef), ifHits(row, fmt.Sprintf("%.2f", row.WritesPerHit))}
		if row.Restart != nil {
			cells = append(cells, percent(float64(row.Restart.PrefixHitsRestarted)/float64(max(row.Restart.PrefixHits, 1))))
		}
		rows = append(rows, cells)
	}
	return rows
}

// ifHits shows what is counted for each hit; without a hit there is nothing to show.
func ifHits(row *planRow, text string) string {
	if row.HitRatio == 0 {
		return "-"
	}
	return text
}

func (r *planReport) drives() [][]string {
	rows := [][]string{{"POLICY", "CAPACITY", "BYTES", "WRITES/S", "READS/S", "WRITTEN/HIT", "DRIVES", "FOR ENDURANCE", "DWPD", "TBW"}}
	for i := range r.Rows {
		row, n := &r.Rows[i], r.Rows[i].Needs
		rows = append(rows, []string{r.policy(row), row.Capacity, units.Bytes(n.CapacityBytes), units.Bytes(int64(n.WriteBytesPerSecond)),
			units.Bytes(int64(n.ReadBytesPerSecond)), ifHits(row, units.Bytes(int64(n.WrittenPerHit))), strconv.Itoa(n.DrivesByCapacity), strconv.Itoa(n.DrivesByEndurance),
			fmt.Sprintf("%.1f", n.DWPD), fmt.Sprintf("%.0f", n.TBW)})
	}
	return rows
}

func (r *planReport) placements() [][]string {
	rows := [][]string{{"PLACEMENT", "PREFIX HITS KEPT, FIRST MINUTE", "NODES/REQUEST", "FULLEST/MEAN"}}
	for _, p := range r.Placements {
		rows = append(rows, []string{p.Placement, percent(p.Kept), fmt.Sprintf("%.2f", p.NodesPerRequest), fmt.Sprintf("%.2f", p.Balance)})
	}
	return rows
}

func percent(ratio float64) string { return fmt.Sprintf("%.2f %%", 100*ratio) }
