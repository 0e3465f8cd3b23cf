package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

type getCmd struct {
	storeFlags
	jsonFlag
	Namespace string `default:"default" help:"The namespace."`
	Group     uint32 `placeholder:"N" help:"The key's cache group."`
	Output    string `short:"o" default:"-" placeholder:"FILE" complete:"file" help:"Where the block goes; - is standard output. Needed with --json."`
	Key       string `arg:"" help:"The block's key; hex:... for any bytes."`
}

// Help is shown under the flags.
func (*getCmd) Help() string {
	return "Writes the whole block, or nothing and an error if the key is not there."
}

// getReport is the JSON of a get.
type getReport struct {
	Type   string `json:"type"`        // get
	Key    string `json:"key"`         // as text or hex:...
	Status string `json:"status"`      // HIT
	Bytes  int    `json:"block_bytes"` // bytes written
	Output string `json:"output"`      // file that holds them
}

func (*getCmd) reports() []any { return []any{getReport{}} }

func (c *getCmd) run(_ context.Context, st *state) error {
	key, err := readKey(c.Key)
	if err != nil {
		return err
	}
	if c.JSON && c.Output == "-" {
		return usagef("give --output FILE", "--json needs standard output for itself")
	}
	var block []byte
	err = withStore(c.options(st, c.JSON), func(s *engine.Store) error {
		ns, err := s.FindNamespace(c.Namespace)
		if err != nil {
			return err
		}
		block, err = getOne(ns, engine.Key{Group: c.Group, Bytes: key})
		return err
	})
	if err != nil {
		return err
	}
	if c.Output == "-" {
		_, err = st.stdout.Write(block)
		return err
	}
	if err := os.WriteFile(c.Output, block, 0o644); err != nil {
		return err
	}
	if !c.JSON {
		return nil
	}
	return printJSON(st.stdout, getReport{"get", showKey(key), engine.Hit.String(), len(block), c.Output})
}

func getOne(ns *engine.Namespace, key engine.Key) ([]byte, error) {
	block := device.AlignedBuffer(ns.Descriptor().BlockBytes, alignBytes)
	items := []engine.GetItem{{Key: key, Dst: [][]byte{block}}}
	if err := ns.Get(items, engine.GetOptions{}); err != nil {
		return nil, err
	}
	switch item := items[0]; {
	case item.Status == engine.Hit:
		return block, nil
	case item.Status == engine.Miss && errors.Is(item.Err, engine.ErrCorrupt):
		return nil, &failure{code: exitDamage, message: fmt.Sprintf("key %s: its block is damaged and was dropped: %v", showKey(key.Bytes), item.Err),
			remedy: "compute it again", cause: item.Err}
	case item.Status == engine.Miss && item.Err != nil:
		return nil, fmt.Errorf("key %s: %w", showKey(key.Bytes), item.Err)
	case item.Status == engine.Miss:
		return nil, &failure{code: exitError, message: fmt.Sprintf("key %s is not in namespace %s", showKey(key.Bytes), ns.Descriptor().Name),
			remedy: "spillway ls shows what is"}
	default:
		return nil, fmt.Errorf("key %s: the get ended %s", showKey(key.Bytes), item.Status)
	}
}
