package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/fio/units"
)

type nsCmd struct {
	List       nsListCmd       `cmd:"" help:"List the namespaces."`
	Quota      nsQuotaCmd      `cmd:"" help:"Limit what a namespace may take on disk."`
	Hot        nsHotCmd        `cmd:"" help:"List the hottest blocks of a namespace."`
	Descriptor nsDescriptorCmd `cmd:"" help:"Show the descriptor that a namespace was opened with."`
	Drop       nsDropCmd       `cmd:"" help:"Erase a namespace and all its blocks."`
}

type nsListCmd struct {
	storeFlags
	jsonFlag
}

// namespacesReport is the JSON of the namespaces.
type namespacesReport struct {
	Type       string                 `json:"type"`       // namespaces
	Namespaces []engine.NamespaceStat `json:"namespaces"` // in the order in which they were made
}

// namespaceReport is the JSON of one namespace: after a quota, before a drop.
type namespaceReport struct {
	Type string `json:"type"` // quota or drop
	engine.NamespaceStat
}

func (*nsListCmd) reports() []any  { return []any{namespacesReport{}} }
func (*nsQuotaCmd) reports() []any { return []any{namespaceReport{}} }
func (*nsDropCmd) reports() []any  { return []any{namespaceReport{}} }

func (c *nsListCmd) run(_ context.Context, st *state) error {
	list := []engine.NamespaceStat{}
	err := withStore(c.options(st, c.JSON), func(s *engine.Store) error {
		list = append(list, s.Stat().Namespaces...)
		return nil
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(st.stdout, namespacesReport{"namespaces", list})
	}
	rows := [][]string{{"NAME", "ID", "BLOCK", "BLOCKS", "SLOTS", "QUOTA", "INCARNATION"}}
	for _, n := range list {
		quota := "none"
		if n.QuotaBytes > 0 {
			quota = units.Bytes(n.QuotaBytes)
		}
		rows = append(rows, []string{n.Name, fmt.Sprintf("%.12s", n.ID), units.Bytes(int64(n.BlockBytes)),
			fmt.Sprint(n.Blocks), fmt.Sprint(n.Slots), quota, fmt.Sprint(n.Incarnation)})
	}
	return table(st.stdout, rows)
}

type nsQuotaCmd struct {
	storeFlags
	jsonFlag
	Name  string    `arg:"" help:"The namespace, by name or by the start of its ID."`
	Bytes quotaSize `arg:"" help:"The quota, such as 10GiB, or none."`
}

func (c *nsQuotaCmd) run(_ context.Context, st *state) error {
	var after engine.NamespaceStat
	err := withStore(c.options(st, c.JSON), func(s *engine.Store) error {
		ns, err := s.FindNamespace(c.Name)
		if err != nil {
			return err
		}
		if err := ns.SetQuota(int64(c.Bytes)); err != nil {
			return err
		}
		after = ns.Stat()
		return nil
	})
	if err != nil || !c.JSON {
		return err
	}
	return printJSON(st.stdout, namespaceReport{"quota", after})
}

type nsDropCmd struct {
	storeFlags
	jsonFlag
	Yes  bool   `help:"Do not ask."`
	Name string `arg:"" help:"The namespace, by name or by the start of its ID."`
}

// Help is shown under the flags.
func (*nsDropCmd) Help() string {
	return "Asks first on a terminal; elsewhere --yes is needed. What is dropped cannot come back."
}

func (c *nsDropCmd) run(_ context.Context, st *state) error {
	if !c.Yes && !st.stdinTTY {
		return usagef("give --yes", "nobody to ask: standard input is no terminal")
	}
	var before engine.NamespaceStat
	err := withStore(c.options(st, c.JSON), func(s *engine.Store) error {
		ns, err := s.FindNamespace(c.Name)
		if err != nil {
			return err
		}
		before = ns.Stat()
		if !c.Yes && !confirm(st, fmt.Sprintf("Drop namespace %s with its %d blocks? [y/N] ", before.Name, before.Blocks)) {
			return &failure{code: exitError, message: "nothing was dropped"}
		}
		return ns.Drop()
	})
	if err != nil || !c.JSON {
		return err
	}
	return printJSON(st.stdout, namespaceReport{"drop", before})
}

// confirm asks on stderr and reads one line; only y and yes are a yes.
func confirm(st *state, question string) bool {
	fmt.Fprint(st.stderr, question)
	line, _ := bufio.NewReader(st.stdin).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
