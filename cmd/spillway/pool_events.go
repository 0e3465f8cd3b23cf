package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spillway-kv/spillway/cmd/spillway/admin"
)

type poolEventsCmd struct {
	operatorFlags
	jsonFlag
	Follow bool   `short:"f" help:"Go on with what happens from now on, until Ctrl-C."`
	After  uint64 `placeholder:"NUMBER" help:"Only events behind this number."`
}

// Help is shown under the flags.
func (*poolEventsCmd) Help() string {
	return "The daemon keeps the latest 1024; all of them are lines of its log, too. With --json one object a line."
}

func (*poolEventsCmd) reports() []any { return []any{admin.PoolEvent{}} }

// followTime is how long one question waits for news.
const followTime = 20 * time.Second

func (c *poolEventsCmd) run(ctx context.Context, st *state) error {
	o, err := c.operator(st)
	if err != nil {
		return err
	}
	after, instance := c.After, ""
	for wait := time.Duration(0); ; {
		page, err := eventsAfter(ctx, o, after, wait)
		if err != nil {
			return nilIfOver(ctx, err)
		}
		if instance != "" && page.Instance != instance { // another daemon: its numbers begin anew
			after, instance = 0, ""
			continue
		}
		instance = page.Instance
		if page.Missed > 0 && after > c.After {
			fmt.Fprintf(st.stderr, "spillway: %d events were missed\n", page.Missed)
		}
		if err := c.print(st, page.Events); err != nil {
			return err
		}
		if n := len(page.Events); n > 0 {
			after = page.Events[n-1].Number
			continue // there may be more
		}
		if !c.Follow {
			return nil
		}
		wait = followTime
	}
}

func eventsAfter(ctx context.Context, o *operator, after uint64, wait time.Duration) (page admin.PoolEvents, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait+askTime)
	defer cancel()
	query := url.Values{"after": {strconv.FormatUint(after, 10)}, "wait": {wait.String()}}
	return page, o.ask(ctx, "/v1/pool/events", query, nil, &page)
}

func (c *poolEventsCmd) print(st *state, events []admin.PoolEvent) error {
	for i := range events {
		e := &events[i]
		if c.JSON {
			if err := printJSON(st.stdout, e); err != nil {
				return err
			}
			continue
		}
		text := e.Text
		if e.Times > 1 {
			text = fmt.Sprintf("%s (%d times)", text, e.Times)
		}
		node := e.Node
		if node == "" {
			node = "-"
		}
		if _, err := fmt.Fprintf(st.stdout, "%5d  %s  %-8s  %-12s  %s\n", e.Number, e.Time.Local().Format(time.DateTime), e.Kind, node, text); err != nil {
			return err
		}
	}
	return nil
}
