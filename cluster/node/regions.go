package node

import (
	"errors"
	"fmt"
	"os"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/cluster/wire/descriptor"
	"github.com/spillway-kv/spillway/tiering/arena"
)

// region is memory of one client.
type region struct {
	memory *arena.Region
	bytes  int64
	copied bool // the pool's transport does not know it, and would be quicker if it did
}

// registerRegion maps a client's file.
func (c *conn) registerRegion(m *wire.RegisterRegion, file *os.File) (wire.Message, error) {
	if file == nil {
		return nil, argument("no descriptor came with the request")
	}
	defer file.Close()
	if m.Flags&^wire.RegionSource != 0 {
		return nil, argument(fmt.Sprintf("unknown flags %#x", m.Flags))
	}
	number, err := c.addRegion(m.LengthBytes, populated(file, m.LengthBytes), func() (*arena.Region, error) { return arena.MapRegion(file, int64(m.LengthBytes)) })
	return wire.Number(number), err
}

// createRegion makes memory for a client and sends its descriptor.
func (q *request) createRegion(m *wire.CreateRegion) {
	defer q.finish()
	c := q.c
	if _, err := c.space(m.Number); err != nil {
		q.refuse(err)
		return
	}
	var file *os.File
	if m.LengthBytes > uint64(c.options.RegionBytesMax) { // before it is rounded up
		q.refuse(c.bookRegion(m.LengthBytes))
		return
	}
	rounded := (m.LengthBytes + arena.SharedUnitBytes - 1) / arena.SharedUnitBytes * arena.SharedUnitBytes
	number, err := c.addRegion(rounded, true, func() (*arena.Region, error) {
		shared, err := arena.NewShared("spillway-client", int64(rounded))
		if err != nil {
			return nil, err
		}
		if file, err = descriptor.Duplicate(shared.File()); err != nil { // here: nobody can drop the region yet
			shared.Close()
			return nil, err
		}
		return shared.Region, nil
	})
	if err != nil {
		closeFile(file)
		q.refuse(err)
		return
	}
	q.leave()
	answer := &wire.CreateRegion{Number: number, LengthBytes: rounded}
	c.out.add(func(b []byte) []byte { return wire.AppendFrame(b, q.kind|wire.Answer, q.number, answer) }, file)
}

// addRegion takes a region into the connection's account, makes it, and pins it
// if it can and pinned says so.
func (c *conn) addRegion(length uint64, pinned bool, make func() (*arena.Region, error)) (number uint32, err error) {
	if err := c.bookRegion(length); err != nil {
		return 0, err
	}
	memory, err := make()
	if err != nil {
		c.unbookRegion(int64(length))
		if errors.Is(err, arena.ErrNotMemory) || errors.Is(err, arena.ErrSize) {
			return 0, argument(err.Error())
		}
		return 0, err
	}
	copied := c.pin(memory, pinned)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.regions == nil { // the connection has ended
		memory.Close()
		return 0, errClosing
	}
	c.lastNumber++
	c.regions[c.lastNumber] = &region{memory, int64(length), copied}
	return c.lastNumber, nil
}

func (c *conn) bookRegion(length uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.options
	switch {
	case length == 0:
		return argument("a region of no bytes")
	case c.regionCount >= o.RegionsMax:
		return limit(fmt.Sprintf("%d regions are registered, which is the limit", c.regionCount), "raise limits.regions in the daemon's configuration")
	case length > uint64(o.RegionBytesMax-c.regionBytes):
		return limit(fmt.Sprintf("a region of %d bytes beside %d, %d is the limit", length, c.regionBytes, o.RegionBytesMax),
			"raise limits.region_bytes in the daemon's configuration")
	}
	c.regionCount++
	c.regionBytes += int64(length)
	return nil
}

func (c *conn) unbookRegion(length int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.regionCount--
	c.regionBytes -= length
}

// pinBytes is the largest piece that drives register.
const pinBytes = 1 << 30

// pin registers a region with the drives and the pool's transport, if it may be pinned:
// transfers cost less then. It reports whether blocks that come from peers are copied.
func (c *conn) pin(memory *arena.Region, may bool) (copied bool) {
	r := c.node.registered
	if !may || c.options.KeepRegionsUnpinned || memory.Acquire() != nil {
		return r.wanted()
	}
	defer memory.Release()
	for _, s := range c.node.Stores() {
		if _, err := memory.Register(arena.RegistrarFunc(s.RegisterMemory), pinBytes); err != nil {
			c.node.log.Debug("a client's memory stays unpinned, transfers cost more processor time", "client", c.number, "cause", err)
		}
	}
	if _, err := r.register(memory, destinations); err != nil {
		r.refuse("a client's", memory.Bytes(), err)
		return true
	}
	return false
}

// dropRegion ends a region and waits for the transfers in it.
func (c *conn) dropRegion(number uint32) error {
	c.mu.Lock()
	r := c.regions[number]
	delete(c.regions, number)
	c.mu.Unlock()
	if r == nil {
		return unknown(fmt.Sprintf("region %d is not registered on this connection", number))
	}
	r.memory.Close()
	<-r.memory.Dropped()
	c.unbookRegion(r.bytes)
	return nil
}
