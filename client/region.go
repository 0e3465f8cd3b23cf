package client

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/cluster/wire/descriptor"
)

// Region is memory that the daemon moves blocks to and from. It stays valid
// while the daemon goes away and comes back.
type Region struct {
	c      *Client
	file   *os.File
	length int64
	mem    []byte // of Allocate; nil for a caller's file
}

// Allocate makes memory of nBytes and maps it; Bytes is the mapping. It is the
// client's until Close.
func (c *Client) Allocate(nBytes int64) (*Region, error) {
	if nBytes <= 0 {
		return nil, fmt.Errorf("a region of %d bytes", nBytes)
	}
	file, err := makeMemory(nBytes)
	if err != nil {
		return nil, fmt.Errorf("make a region of %d bytes: %w", nBytes, err)
	}
	r := &Region{c: c, file: file, length: nBytes}
	if r.mem, err = mapFile(file, nBytes); err == nil {
		err = c.add(r)
	}
	if err != nil {
		r.unmap()
		return nil, fmt.Errorf("make a region of %d bytes: %w", nBytes, err)
	}
	return r, nil
}

// Register makes the first nBytes of a file a region: a memfd, or a file of tmpfs
// or hugetlbfs, open for reading and writing. The file stays the caller's, who may
// close it; its memory must not shrink.
func (c *Client) Register(file *os.File, nBytes int64) (*Region, error) {
	own, err := descriptor.Duplicate(file)
	if err != nil {
		return nil, err
	}
	r := &Region{c: c, file: own, length: nBytes}
	if err := c.add(r); err != nil {
		r.unmap()
		return nil, fmt.Errorf("register %s: %w", file.Name(), err)
	}
	return r, nil
}

// add makes a region known to the daemon there is, and to those to come.
func (c *Client) add(r *Region) error {
	c.opening.Lock()
	defer c.opening.Unlock()
	c.mu.Lock()
	l, closed := c.link, c.closed
	c.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if l != nil {
		if err := l.registerRegion(context.Background(), r); err != nil && !errors.Is(err, errLost) {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.regions = append(c.regions, r)
	return nil
}

// Bytes is the mapping of a region that Allocate made, else nil.
func (r *Region) Bytes() []byte { return r.mem }

// Length is the region's size in bytes.
func (r *Region) Length() int64 { return r.length }

// Row is the place of row i, of rowBytes each.
func (r *Region) Row(i, rowBytes int) Place { return Place{r, int64(i) * int64(rowBytes), rowBytes} }

func (r *Region) unmap() {
	unmapFile(r.mem)
	r.mem = nil
	_ = r.file.Close()
}

// Place is a piece of memory for a block, or for a part of one.
type Place struct {
	Region      *Region
	OffsetBytes int64
	LengthBytes int
}

// check panics on a place that is not within its region.
func (p Place) check() {
	if p.Region == nil || p.LengthBytes <= 0 || p.OffsetBytes < 0 || p.OffsetBytes > p.Region.length-int64(p.LengthBytes) {
		panic(fmt.Sprintf("client: a place of %d bytes at %d outside its region", p.LengthBytes, p.OffsetBytes))
	}
}

// registerRegion tells the daemon of a region.
func (l *link) registerRegion(ctx context.Context, r *Region) error {
	body, err := l.ask(ctx, wire.TypeRegisterRegion, &wire.RegisterRegion{LengthBytes: uint64(r.length)}, r.file)
	if err != nil {
		return err
	}
	number, err := wire.ParseNumber(body)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.regions[r] = uint32(number)
	return nil
}
