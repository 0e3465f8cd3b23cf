package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// alignBytes satisfies the direct I/O of any drive with 4 KiB sectors.
const alignBytes = 4096

type putCmd struct {
	storeFlags
	createFlags
	jsonFlag
	Namespace  string   `default:"default" help:"The namespace; made if there is none."`
	Group      uint32   `placeholder:"N" help:"The key's cache group."`
	BlockBytes byteSize `placeholder:"SIZE" help:"Block size of a new namespace; otherwise that of the data."`
	Pad        bool     `help:"Fill data that is shorter than a block up with zeros."`
	Key        string   `arg:"" help:"The block's key, 1 to 1024 bytes; hex:... for any bytes."`
	File       string   `arg:"" optional:"" default:"-" complete:"file" help:"Where the data is; - is standard input."`
}

// Help is shown under the flags.
func (*putCmd) Help() string {
	return "The data must be exactly one block. The first put into a namespace chooses its block size. " +
		"A put of a key that is there changes nothing and answers PRESENT. The block is on stable media when the command ends well."
}

// putReport is the JSON of a put.
type putReport struct {
	Type   string `json:"type"`        // put
	Key    string `json:"key"`         // as text or hex:...
	Status string `json:"status"`      // STORED, or PRESENT if the key was there
	Bytes  int    `json:"block_bytes"` // size of the block
}

func (*putCmd) reports() []any { return []any{putReport{}} }

func (c *putCmd) run(_ context.Context, st *state) error {
	key, err := readKey(c.Key)
	if err != nil {
		return err
	}
	if c.BlockBytes > 0 {
		if err := checkBlockBytes(int64(c.BlockBytes)); err != nil {
			return err
		}
	}
	if err := c.createFlags.check(c.Dir); err != nil {
		return err
	}
	data, err := readBlock(st.stdin, c.File)
	if err != nil {
		return err
	}
	if isEmpty(c.Dir) { // find faults before a store is made for nothing
		if err := checkBlockBytes(int64(c.newBlockBytes(len(data)))); err != nil {
			return err
		}
	}
	o := c.options(st, c.JSON)
	o.MustExist = false
	o.CapacityBytes = int64(c.Capacity)
	item := engine.PutItem{Key: engine.Key{Group: c.Group, Bytes: key}}
	err = withStore(o, func(s *engine.Store) error {
		ns, err := c.namespace(s, len(data))
		if err != nil {
			return err
		}
		block, err := c.fit(ns, data)
		if err != nil {
			return err
		}
		item.Src = [][]byte{block}
		return putOne(ns, &item)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(st.stdout, putReport{"put", showKey(key), item.Status.String(), len(item.Src[0])})
	}
	_, err = fmt.Fprintln(st.stdout, item.Status)
	return err
}

// newBlockBytes is the block size of a namespace made for this data.
func (c *putCmd) newBlockBytes(dataBytes int) int {
	switch {
	case c.BlockBytes > 0:
		return int(c.BlockBytes)
	case c.Pad:
		return (max(dataBytes, 1) + alignBytes - 1) / alignBytes * alignBytes
	}
	return dataBytes
}

// namespace finds the namespace, or makes it.
func (c *putCmd) namespace(s *engine.Store, dataBytes int) (*engine.Namespace, error) {
	ns, err := s.FindNamespace(c.Namespace)
	if err == nil {
		if has := ns.Descriptor().BlockBytes; c.BlockBytes > 0 && has != int(c.BlockBytes) {
			return nil, usagef("leave it out or choose another --namespace",
				"--block-bytes is %d but namespace %s has blocks of %d bytes", c.BlockBytes, c.Namespace, has)
		}
		return ns, nil
	}
	if !errors.Is(err, engine.ErrNotFound) {
		return nil, err
	}
	size := c.newBlockBytes(dataBytes)
	if err := checkBlockBytes(int64(size)); err != nil {
		return nil, err
	}
	return s.Namespace(engine.Descriptor{Name: c.Namespace, BlockBytes: size})
}

// fit makes the data exactly one block, aligned.
func (c *putCmd) fit(ns *engine.Namespace, data []byte) ([]byte, error) {
	size := ns.Descriptor().BlockBytes
	if len(data) > size {
		return nil, usagef("give exactly one block", "the data has %d bytes but a block of namespace %s has %d", len(data), c.Namespace, size)
	}
	if len(data) < size && !c.Pad {
		return nil, usagef("give exactly one block, or --pad to fill it up with zeros",
			"the data has %d bytes but a block of namespace %s has %d", len(data), c.Namespace, size)
	}
	block := device.AlignedBuffer(size, alignBytes)
	copy(block, data)
	return block, nil
}

func putOne(ns *engine.Namespace, item *engine.PutItem) error {
	items := []engine.PutItem{*item}
	if err := ns.Put(items, engine.PutOptions{Durability: engine.Durable}); err != nil {
		return err
	}
	*item = items[0]
	switch item.Status {
	case engine.Stored, engine.Present:
		return nil
	case engine.Dropped:
		return fmt.Errorf("the put was dropped: %w", item.Err)
	}
	return fmt.Errorf("the put ended %s", item.Status)
}

// readBlock reads the data of one block, and one byte more if there is one.
func readBlock(stdin io.Reader, path string) ([]byte, error) {
	src := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		src = f
	}
	data, err := io.ReadAll(io.LimitReader(src, blockBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("reading the data: %w", err)
	}
	if len(data) > blockBytesMax {
		return nil, usagef("give exactly one block", "the data has more than %d bytes, the most a block can have", blockBytesMax)
	}
	return data, nil
}
