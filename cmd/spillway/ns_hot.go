package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/cmd/spillway/admin"
	"github.com/spillway-kv/spillway/engine"
)

// eitherFlags choose a daemon that runs, or a store that is not open.
type eitherFlags struct {
	Admin         string        `placeholder:"ADDRESS" help:"The admin interface of a running daemon."`
	Dir           string        `placeholder:"DIR" complete:"dir" help:"A store's directory, in place of a daemon; no other process may have it open."`
	BufferedIO    bool          `name:"buffered-io" help:"Allow buffered I/O where the file system has no direct I/O."`
	AnyFilesystem bool          `name:"any-filesystem" help:"Allow file systems other than ext4 and XFS."`
	LockWait      time.Duration `default:"5s" help:"How long to retry a directory in use."`
}

// check wants exactly one of the two.
func (f *eitherFlags) check() error {
	if (f.Admin == "") == (f.Dir == "") {
		return usagef("give --admin ADDRESS for a daemon that runs, --dir DIR for a store that is not open", "one of --admin and --dir is needed")
	}
	return nil
}

// withNamespace runs work with a namespace of the store in Dir.
func (f *eitherFlags) withNamespace(st *state, name string, work func(*engine.Namespace) error) error {
	flags := storeFlags{Dir: f.Dir, BufferedIO: f.BufferedIO, AnyFilesystem: f.AnyFilesystem, LockWait: f.LockWait, IOEngine: "auto"}
	return withStore(flags.options(st, false), func(s *engine.Store) error {
		ns, err := s.FindNamespace(name)
		if err != nil {
			return err
		}
		return work(ns)
	})
}

type nsHotCmd struct {
	eitherFlags
	jsonFlag
	Count int    `default:"1000" help:"Most blocks to list."`
	Name  string `arg:"" help:"The namespace, by name or by the start of its ID."`
}

// Help is shown under the flags.
func (*nsHotCmd) Help() string {
	return "The most important first; of equal ones those used most, then latest, and parents before their children. " +
		"With --json one object a line: what warm --keys reads."
}

func (*nsHotCmd) reports() []any { return []any{admin.HotBlock{}} }

// hotTime bounds the listing of a namespace: its whole index is read.
const hotTime = 10 * time.Minute

func (c *nsHotCmd) run(ctx context.Context, st *state) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Count < 1 || c.Count > admin.HotMax {
		return usagef(fmt.Sprintf("give 1 to %d", admin.HotMax), "--count %d", c.Count)
	}
	blocks, err := c.blocks(ctx, st)
	if err != nil {
		return err
	}
	if c.JSON {
		for i := range blocks {
			if err := printJSON(st.stdout, &blocks[i]); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]string{{"KEY", "GROUP", "DEPTH", "IMPORTANCE", "USES", "IDLE"}}
	for i := range blocks {
		b := &blocks[i]
		key, err := readKey(b.Key)
		if err != nil {
			return err
		}
		rows = append(rows, []string{showKey(key), fmt.Sprint(b.Group), fmt.Sprint(b.Depth), fmt.Sprint(b.Importance), fmt.Sprint(b.Uses),
			(time.Duration(b.IdleMS) * time.Millisecond).String()})
	}
	return table(st.stdout, rows)
}

func (c *nsHotCmd) blocks(ctx context.Context, st *state) ([]admin.HotBlock, error) {
	if c.Admin != "" {
		ctx, cancel := context.WithTimeout(ctx, hotTime)
		defer cancel()
		var hot admin.Hot
		query := url.Values{"namespace": {c.Name}, "count": {strconv.Itoa(c.Count)}}
		err := askAdmin(ctx, c.Admin, "/v1/namespaces/hot", query, &hot)
		return hot.Blocks, err
	}
	var blocks []admin.HotBlock
	err := c.withNamespace(st, c.Name, func(ns *engine.Namespace) error {
		entries, err := node.Hottest([]*engine.Namespace{ns}, c.Count)
		blocks = admin.HotBlocks(entries)
		return err
	})
	return blocks, err
}

type nsDescriptorCmd struct {
	eitherFlags
	Name string `arg:"" help:"The namespace, by name or by the start of its ID."`
}

// Help is shown under the flags.
func (*nsDescriptorCmd) Help() string {
	return "Prints it as JSON. With another revision written into it, it is what warm --descriptor takes."
}

func (c *nsDescriptorCmd) run(ctx context.Context, st *state) error {
	if err := c.check(); err != nil {
		return err
	}
	var d engine.Descriptor
	if c.Admin != "" {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		if err := askAdmin(ctx, c.Admin, "/v1/namespaces/descriptor", url.Values{"namespace": {c.Name}}, &d); err != nil {
			return err
		}
		return printJSON(st.stdout, d)
	}
	err := c.withNamespace(st, c.Name, func(ns *engine.Namespace) error {
		d = ns.Descriptor()
		return nil
	})
	if err != nil {
		return err
	}
	return printJSON(st.stdout, d)
}
