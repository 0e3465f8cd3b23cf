package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/fio"
	"github.com/spillway-kv/spillway/fio/units"
)

// poolCmd is the operator's hold on a pool. Each command speaks to one node's daemon.
type poolCmd struct {
	Status  poolStatusCmd  `cmd:"" help:"Show a node's part in its pool, and what it knows of each other node."`
	Members poolMembersCmd `cmd:"" help:"List the nodes of the pool, and say which cannot be reached."`
	Locate  poolLocateCmd  `cmd:"" help:"Say which nodes have a block."`
	Drain   poolDrainCmd   `cmd:"" help:"Have this node hand its blocks over to the others, and show how far it is."`
	Undrain poolUndrainCmd `cmd:"" help:"End a drain: this node takes new blocks again."`
	Forget  poolForgetCmd  `cmd:"" help:"Have the whole pool forget a node that is gone for good."`
	Keys    poolKeysCmd    `cmd:"" help:"List or change the keys of this node's gossip."`
	Way     poolWayCmd     `cmd:"" help:"Have blocks of other nodes come over TCP, for a while or for good, or by RDMA again."`
	Events  poolEventsCmd  `cmd:"" help:"Show what happened in the pool, as this node saw it."`
}

type poolStatusCmd struct {
	operatorFlags
	jsonFlag
}

func (*poolStatusCmd) reports() []any { return []any{admin.PoolStatus{}} }

func (c *poolStatusCmd) run(ctx context.Context, st *state) error {
	var s admin.PoolStatus
	if err := c.get(ctx, st, "/v1/pool", nil, &s); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(st.stdout, s)
	}
	if err := table(st.stdout, poolHead(&s)); err != nil {
		return err
	}
	if len(s.Peers) == 0 {
		if err := sayAll(st.stdout, noRDMA(&s)); err != nil {
			return err
		}
		_, err := fmt.Fprintln(st.stdout, "\nno other node: is one of theirs named as a seed? spillway pool members says what became of the seeds")
		return err
	}
	if _, err := fmt.Fprintln(st.stdout); err != nil {
		return err
	}
	if err := table(st.stdout, peerRows(&s)); err != nil {
		return err
	}
	return sayAll(st.stdout, slices.Concat(noRDMA(&s), linkCauses(&s), wayCauses(&s)))
}

// noRDMA is why this node has no RDMA though its configuration asks for it.
func noRDMA(s *admin.PoolStatus) []string {
	if s.TransportWhy == "" {
		return nil
	}
	return []string{"by tcp, not by rdma: " + s.TransportWhy}
}

// linkCauses are why members have no link.
func linkCauses(s *admin.PoolStatus) (lines []string) {
	for i := range s.Peers {
		if p := &s.Peers[i]; p.Member && p.Link != "up" && p.Cause != "" {
			lines = append(lines, fmt.Sprintf("%s: no link: %s", p.Name, p.Cause))
		}
	}
	return lines
}

// wayCauses are why blocks of linked members do not come as they could.
func wayCauses(s *admin.PoolStatus) (lines []string) {
	for i := range s.Peers {
		if p := &s.Peers[i]; p.Member && p.Link == "up" && p.Way.Why != "" {
			lines = append(lines, fmt.Sprintf("%s: by %s: %s", p.Name, p.Way.Name, p.Way.Why))
		}
	}
	return lines
}

// sayAll writes lines below a table, with an empty one before them.
func sayAll(w io.Writer, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(lines, "\n"))
	return err
}

// get asks one question that needs no other node.
func (f *operatorFlags) get(ctx context.Context, st *state, path string, query url.Values, into any) error {
	o, err := f.operator(st)
	if err != nil {
		return err
	}
	ctx, cancel := quick(ctx)
	defer cancel()
	return o.ask(ctx, path, query, nil, into)
}

// change has something changed, and says what.
func (f *operatorFlags) change(ctx context.Context, st *state, path string, body any, asJSON bool) error {
	o, err := f.operator(st)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // other nodes may have to hear of it
	defer cancel()
	var done admin.Changed
	if err := o.ask(ctx, path, nil, body, &done); err != nil {
		return err
	}
	if asJSON {
		return printJSON(st.stdout, poolChangedReport{"pool_changed", done.Done})
	}
	_, err = fmt.Fprintln(st.stdout, done.Done)
	return err
}

// poolChangedReport is the JSON of a change.
type poolChangedReport struct {
	Type string `json:"type"` // pool_changed
	Done string `json:"done"` // what, in words
}

func poolHead(s *admin.PoolStatus) [][]string {
	secured := func(what string, is bool) string {
		if is {
			return what
		}
		return "NO " + what
	}
	usable := 0
	for i := range s.Peers {
		if s.Peers[i].Usable {
			usable++
		}
	}
	return [][]string{
		{"pool " + s.Pool, "node " + s.Name, s.State, "data " + s.Address, "gossip " + s.Gossip},
		{"", fmt.Sprintf("%.12s", s.Node), fmt.Sprintf("%d of %s used", usable, units.Count(int64(len(s.Peers)), "peer")),
			fmt.Sprintf("copies %d, placement %s, by %s", s.Copies, s.Placement, s.Transport), secured("keyring", s.Keyring) + ", " + secured("TLS", s.TLS)},
	}
}

// peerRows are the table of the other nodes.
func peerRows(s *admin.PoolStatus) [][]string {
	rows := [][]string{{"PEER", "STATE", "LINK", "WAY", "BREAKER", "P50", "P95", "P99", "IN FLIGHT", "GOT", "MISSED", "LATE", "WRONG", "STORED", "FAILURES", "SKIPPED"}}
	for i := range s.Peers {
		p := &s.Peers[i]
		rows = append(rows, []string{p.Name, stateOf(p), p.Link, p.Way.Name, p.Breaker, timeOrNone(p.P50NS), timeOrNone(p.P95NS), timeOrNone(p.P99NS), units.Bytes(p.InFlightBytes),
			fmt.Sprint(p.Hits), fmt.Sprint(p.Misses), fmt.Sprint(p.Late), fmt.Sprint(p.Wrong), fmt.Sprint(p.Stored), fmt.Sprint(p.Failures), fmt.Sprint(p.Skipped)})
	}
	return rows
}

func timeOrNone(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return fio.FormatNS(ns)
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

type poolMembersCmd struct {
	operatorFlags
	jsonFlag
}

func (*poolMembersCmd) reports() []any { return []any{admin.PoolMembers{}} }

func (c *poolMembersCmd) run(ctx context.Context, st *state) error {
	var m admin.PoolMembers
	if err := c.get(ctx, st, "/v1/pool/members", nil, &m); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(st.stdout, m)
	}
	rows := [][]string{{"NAME", "ID", "HEALTH", "STATE", "WAY", "DATA", "GOSSIP", "ZONE", "CAPACITY", "FREE", "FOR", "STARTS"}}
	for i := range m.Members {
		n := &m.Members[i]
		name := n.Name
		if n.Self {
			name += " (this)"
		}
		rows = append(rows, []string{name, fmt.Sprintf("%.12s", n.Node), n.Health, n.State, orNone(n.Way), n.Address, n.Gossip, n.Zone, units.Bytes(n.CapacityBytes), units.Bytes(n.FreeBytes),
			(time.Duration(n.SinceMS) * time.Millisecond).Round(time.Second).String(), fmt.Sprint(n.Start)})
	}
	if err := table(st.stdout, rows); err != nil {
		return err
	}
	return sayAll(st.stdout, complaints(&m))
}

// complaints are what is not as it should be with the members.
func complaints(m *admin.PoolMembers) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for i := range m.Members {
		for _, l := range m.Members[i].Legs {
			if l.Error != "" {
				say("%s: %s", m.Members[i].Name, l.Error)
			}
		}
	}
	for _, s := range m.Seeds {
		if s.Error != "" && !s.Member {
			say("seed %s: %s", s.Seed, strings.TrimPrefix(s.Error, s.Seed+": "))
		}
	}
	for _, r := range m.TurnedAway {
		say("turned away, %s ago, %s from %s: %s (%s)", (time.Duration(r.AgeMS) * time.Millisecond).Round(time.Second), units.Count(r.Count, "time"), r.From, r.Reason, strings.TrimPrefix(r.Text, string(r.Reason)+": "))
	}
	if m.Health > 0 {
		say("this node is slow or badly connected (%d of 7): it gives others more time before it suspects them", m.Health)
	}
	return lines
}

type poolLocateCmd struct {
	operatorFlags
	jsonFlag
	Group     uint32   `default:"0" help:"Cache group of the keys."`
	Namespace string   `arg:"" help:"The namespace, by name or by the start of its ID."`
	Keys      []string `arg:"" name:"key" help:"Keys; hex: and hex digits for those that are no text."`
}

func (*poolLocateCmd) reports() []any { return []any{admin.PoolLocated{}} }

func (c *poolLocateCmd) run(ctx context.Context, st *state) error {
	for _, key := range c.Keys {
		if _, err := readKey(key); err != nil {
			return err
		}
	}
	var l admin.PoolLocated
	query := url.Values{"namespace": {c.Namespace}, "group": {fmt.Sprint(c.Group)}, "key": c.Keys}
	if err := c.get(ctx, st, "/v1/pool/locate", query, &l); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(st.stdout, l)
	}
	rows := [][]string{{"KEY", "NODES"}}
	for _, b := range l.Blocks {
		nodes := strings.Join(b.Nodes, ", ")
		if nodes == "" {
			nodes = "on none of " + strings.Join(l.Asked, ", ")
		}
		rows = append(rows, []string{b.Key, nodes})
	}
	return table(st.stdout, rows)
}

type poolForgetCmd struct {
	operatorFlags
	jsonFlag
	Node string `arg:"" help:"The node, by name or by the start of its ID."`
}

// Help is shown under the flags.
func (*poolForgetCmd) Help() string {
	return "For a node that was lost and does not come back. One that runs is drained and stopped instead: " +
		"here its daemon would end, without a drain. Where it comes back nevertheless, it joins like any other."
}

func (*poolForgetCmd) reports() []any { return []any{poolChangedReport{}} }

func (c *poolForgetCmd) run(ctx context.Context, st *state) error {
	return c.change(ctx, st, "/v1/pool/forget", map[string]string{"node": c.Node}, c.JSON)
}
