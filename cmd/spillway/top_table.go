package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/fio/units"
)

// clientsShown bounds the table of clients.
const clientsShown = 20

// printTop writes the tables. Without an earlier state of the same daemon they show
// counts since its start, with one what happened since, per second.
func printTop(w io.Writer, before, now *admin.State) error {
	if before == nil || before.Instance != now.Instance || now.UptimeMS <= before.UptimeMS {
		before = nil
	}
	for _, part := range [][][]string{topHead(before, now), topStores(before, now), topWear(now), topSpaces(before, now), topRefused(before, now), topPool(before, now), topClients(now)} {
		if len(part) == 0 {
			continue
		}
		if err := table(w, part); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return nil
}

// count shows a counter: since the start, or its rate.
func count(before, now *admin.State, was, is uint64, show func(float64) string) string {
	if before == nil {
		return show(float64(is))
	}
	return show(float64(is-min(was, is))/(float64(now.UptimeMS-before.UptimeMS)/1000)) + "/s"
}

func plain(v float64) string { return fmt.Sprintf("%.4g", v) }

func sized(v float64) string { return units.Bytes(int64(v)) }

func topHead(before, now *admin.State) [][]string {
	var was node.Stat
	if before != nil {
		was = before.Stat
	}
	state := "ready"
	if !now.Ready {
		state = "not ready"
	}
	rows := [][]string{
		{now.Server, state, "up " + (time.Duration(now.UptimeMS) * time.Millisecond).Round(time.Second).String(), units.Count(int64(now.Connections), "client"),
			"requests " + count(before, now, was.Requests, now.Requests, plain), fmt.Sprintf("refused %d, limited %d, malformed %d", now.Refused, now.Limited, now.Malformed)},
	}
	r := now.Recent
	reads := []string{"block reads", "last minute", fmt.Sprintf("%d blocks", r.Reads), "P50 -", "P99 -", "max -"}
	if r.Reads > 0 {
		reads = append(reads[:3], "P50 "+fio.FormatNS(r.P50NS), "P99 "+fio.FormatNS(r.P99NS), "max "+fio.FormatNS(r.MaxNS))
	}
	rows = append(rows, reads)
	if g := now.Gate; g != nil && g.BudgetNS > 0 {
		rows = append(rows, []string{"budget " + fio.FormatNS(g.BudgetNS), g.Verdict, "saved about", fmt.Sprintf("%.4g GPU s", g.SavedSeconds), fmt.Sprintf("%d tokens", g.SavedTokens), ""})
	}
	rows = append(rows, topMemory(before, now)...)
	for _, dir := range now.Missing {
		rows = append(rows, []string{"store " + dir, "not open"})
	}
	if now.StoringNothing {
		rows = append(rows, []string{"STORING NOTHING", "every put of the last minute was dropped"})
	}
	return rows
}

// topMemory is the line of the memory tier, if there is one.
func topMemory(before, now *admin.State) [][]string {
	m, p := now.Memory, now.Prefetch
	if m == nil || p == nil {
		return nil
	}
	was := *m
	if before != nil && before.Memory != nil {
		was = *before.Memory
	}
	return [][]string{{"memory " + string(m.Mode), units.Bytes(m.Bytes) + " of " + units.Bytes(m.TotalBytes), fmt.Sprintf("%d blocks", m.Blocks),
		"hits " + count(before, now, was.Hits, m.Hits, plain), "evicted " + count(before, now, was.Evicted, m.Evicted, plain),
		fmt.Sprintf("prefetch %s, precision %s, coverage %s, waiting %d", p.Predictor,
			share(m.Precision, m.AheadUsed+m.AheadWaste), share(m.Coverage, m.Hits+m.Misses), p.Waiting)}}
}

// share shows a share of some; of none there is no share.
func share(v float64, of uint64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func topStores(before, now *admin.State) [][]string {
	rows := [][]string{{"STORE", "HEALTH", "USED", "CAPACITY", "BLOCKS", "READ", "WRITTEN", "EVICTED", "TORN", "LOST", "ERRORS", "READS+WRITES WAITING", "PUT QUEUE"}}
	for i := range now.Stores {
		s, d := &now.Stores[i], &now.Drives[i]
		was := s.Counters
		if before != nil && i < len(before.Stores) {
			was = before.Stores[i].Counters
		}
		health := s.Health
		if !s.DirectIO {
			health += ", buffered"
		}
		rows = append(rows, []string{s.Dir, health, units.Bytes(s.UsedBytes), units.Bytes(s.CapacityBytes), fmt.Sprint(s.Blocks),
			count(before, now, was.ReadBytes, s.Counters.ReadBytes, sized), count(before, now, was.WrittenBytes, s.Counters.WrittenBytes, sized),
			count(before, now, was.Evicted, s.Counters.Evicted, plain), fmt.Sprint(s.Counters.TornBlocks), fmt.Sprint(s.Counters.LostBlocks),
			fmt.Sprint(s.Counters.ReadErrors + s.Counters.WriteErrors), fmt.Sprintf("%d+%d", d.LoadsWaiting, d.StoresWaiting),
			units.Bytes(d.AdmittedBytes) + " of " + units.Bytes(d.AdmittedMaxBytes)})
	}
	return rows
}

func topSpaces(before, now *admin.State) [][]string {
	rows := [][]string{{"NAMESPACE", "ID", "BLOCK", "BLOCKS", "SLOTS", "HIT", "PREFIX HIT", "MISS", "LATE", "BUSY", "STORED", "PRESENT", "DROPPED"}}
	earlier := spacesOf(before)
	for _, s := range now.Spaces {
		was := earlier[s.ID]
		n := func(was, is uint64) string { return count(before, now, was, is, plain) }
		rows = append(rows, []string{s.Name, fmt.Sprintf("%.12s", s.ID), units.Bytes(int64(s.BlockBytes)), fmt.Sprint(s.Blocks), fmt.Sprint(s.Slots),
			n(was.Hits, s.Hits), n(was.PrefixHits, s.PrefixHits), n(was.Misses, s.Misses), n(was.Late, s.Late), n(was.Busy, s.Busy),
			n(was.Stored, s.Stored), n(was.Present, s.Present), n(was.Dropped, s.Dropped)})
	}
	return rows
}

// topWear is what was written to the drives; nothing as long as nothing was.
func topWear(now *admin.State) (rows [][]string) {
	for i := range now.Stores {
		d := &now.Drives[i]
		if d.DayBytes == 0 && d.DayBudgetBytes == 0 {
			continue
		}
		budget, left, last := "none", "-", "-"
		if d.DayBudgetBytes > 0 {
			budget, left = units.Bytes(d.DayBudgetBytes), units.Bytes(d.BudgetLeftBytes)
		}
		if d.DaysLeft > 0 {
			last = fmt.Sprintf("%.0f days", d.DaysLeft)
		}
		rows = append(rows, []string{now.Stores[i].Dir, units.Bytes(d.DayBytes), (time.Duration(d.DayMS) * time.Millisecond).Round(time.Minute).String(),
			budget, left, fmt.Sprintf("%.3g", d.DrivesPerDay), last})
	}
	if len(rows) == 0 {
		return nil
	}
	return append([][]string{{"WEAR", "WRITTEN", "IN THE LAST", "BUDGET A DAY", "LEFT NOW", "DWPD", "LASTS"}}, rows...)
}

// topRefused is what was not worth a write; nothing as long as all was.
func topRefused(before, now *admin.State) (rows [][]string) {
	earlier := spacesOf(before)
	for _, s := range now.Spaces {
		if s.NotFull+s.FirstSight+s.OverBudget+s.QueueFull == 0 {
			continue
		}
		was := earlier[s.ID]
		n := func(was, is uint64) string { return count(before, now, was, is, plain) }
		rows = append(rows, []string{s.Name, n(was.NotFull, s.NotFull), n(was.FirstSight, s.FirstSight), n(was.OverBudget, s.OverBudget), n(was.QueueFull, s.QueueFull)})
	}
	if len(rows) == 0 {
		return nil
	}
	return append([][]string{{"NOT WRITTEN", "PARTIAL", "FIRST SIGHT", "WRITE BUDGET", "QUEUE"}}, rows...)
}

// spacesOf are the namespaces of a state by ID; there may be no state.
func spacesOf(s *admin.State) map[string]node.SpaceStat {
	byID := map[string]node.SpaceStat{}
	if s != nil {
		for i := range s.Spaces {
			byID[s.Spaces[i].ID] = s.Spaces[i]
		}
	}
	return byID
}

func topClients(now *admin.State) [][]string {
	rows := [][]string{{"CLIENT", "NAME", "PID", "UID", "AGE", "REGIONS", "MEMORY", "LEASES", "IN FLIGHT"}}
	for i, c := range now.Clients {
		if i == clientsShown {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(now.Clients)-i)})
			break
		}
		rows = append(rows, []string{fmt.Sprint(c.Number), c.Name, fmt.Sprint(c.Peer.PID), fmt.Sprint(c.Peer.UID),
			(time.Duration(c.SinceMS) * time.Millisecond).Round(time.Second).String(), fmt.Sprint(c.Regions), units.Bytes(c.RegionBytes), fmt.Sprint(c.Leases), fmt.Sprint(c.Requests)})
	}
	return rows
}
