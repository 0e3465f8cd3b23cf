package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spillway-kv/spillway/cmd/spillway/admin"
)

type poolKeysCmd struct {
	List   poolKeysListCmd   `cmd:"" default:"withargs" help:"List this node's keys by their fingerprints, and which nodes have them."`
	Add    poolKeysAddCmd    `cmd:"" help:"Take one more key to decrypt with: the first step of a rotation."`
	Use    poolKeysUseCmd    `cmd:"" help:"Encrypt with another key: the second step, when all nodes have it."`
	Remove poolKeysRemoveCmd `cmd:"" help:"Give a key up: the third step, when no node encrypts with it."`
}

type poolKeysListCmd struct {
	operatorFlags
	jsonFlag
}

func (*poolKeysListCmd) reports() []any { return []any{admin.PoolKeys{}} }

func (c *poolKeysListCmd) run(ctx context.Context, st *state) error {
	var k admin.PoolKeys
	if err := c.get(ctx, st, "/v1/pool/keys", nil, &k); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(st.stdout, k)
	}
	if len(k.Keys) == 0 {
		_, err := fmt.Fprintln(st.stdout, "no keys: the gossip is not encrypted (pool.keyring)")
		return err
	}
	rows := [][]string{{"FINGERPRINT", "BITS", "PRIMARY", "HELD BY", "USED BY"}}
	for _, key := range k.Keys {
		primary := ""
		if key.Primary {
			primary = "yes"
		}
		rows = append(rows, []string{key.Fingerprint, fmt.Sprint(key.Bits), primary, strings.Join(key.Holders, ", "), strings.Join(key.Users, ", ")})
	}
	return table(st.stdout, rows)
}

type poolKeysAddCmd struct {
	operatorFlags
	jsonFlag
	File string `arg:"" optional:"" complete:"file" help:"A file with the key in base64; without it standard input is read."`
}

// Help is shown under the flags.
func (*poolKeysAddCmd) Help() string {
	return "openssl rand -base64 32 makes one. Every node gets the same. docs/operations.md has the whole rotation."
}

func (*poolKeysAddCmd) reports() []any { return []any{poolChangedReport{}} }

// keyBytesMax bounds what is read as a key.
const keyBytesMax = 4 << 10

func (c *poolKeysAddCmd) run(ctx context.Context, st *state) error {
	in := st.stdin
	if c.File != "" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, keyBytesMax))
	if err != nil {
		return err
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return usagef("openssl rand -base64 32 makes one", "no key was given")
	}
	return c.change(ctx, st, "/v1/pool/keys", map[string]any{"do": "add", "key": key}, c.JSON)
}

type poolKeysUseCmd struct {
	operatorFlags
	jsonFlag
	Force       bool   `help:"Also while a node does not have it: that one is cut off."`
	Fingerprint string `arg:"" help:"The key's fingerprint."`
}

func (*poolKeysUseCmd) reports() []any { return []any{poolChangedReport{}} }

func (c *poolKeysUseCmd) run(ctx context.Context, st *state) error {
	return c.change(ctx, st, "/v1/pool/keys", map[string]any{"do": "use", "key": c.Fingerprint, "force": c.Force}, c.JSON)
}

type poolKeysRemoveCmd struct {
	operatorFlags
	jsonFlag
	Force       bool   `help:"Also while a node encrypts with it: that one is cut off."`
	Fingerprint string `arg:"" help:"The key's fingerprint."`
}

func (*poolKeysRemoveCmd) reports() []any { return []any{poolChangedReport{}} }

func (c *poolKeysRemoveCmd) run(ctx context.Context, st *state) error {
	return c.change(ctx, st, "/v1/pool/keys", map[string]any{"do": "remove", "key": c.Fingerprint, "force": c.Force}, c.JSON)
}
