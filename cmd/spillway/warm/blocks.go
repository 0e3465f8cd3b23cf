package warm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-kv/spillway/client"
)

// Block is a block to look for or to copy.
type Block struct {
	Key        []byte
	Group      uint32
	Depth      uint32
	Importance uint8
}

// askedAtOnce is how many keys one Match asks for.
const askedAtOnce = 4096

// Present counts the blocks that a namespace has.
func Present(ns *client.Namespace, blocks []Block) (present int) {
	for group, keys := range byGroup(blocks) {
		for some := range slices.Chunk(keys, askedAtOnce) {
			m := ns.Match(some, client.MatchOptions{Group: group})
			for i := range some {
				if m.Present(i) {
					present++
				}
			}
		}
	}
	return present
}

func byGroup(blocks []Block) map[uint32][][]byte {
	all := map[uint32][][]byte{}
	for i := range blocks {
		all[blocks[i].Group] = append(all[blocks[i].Group], blocks[i].Key)
	}
	return all
}

// Copied is what became of blocks that were to be copied.
type Copied struct {
	Stored  int // new in the namespace
	Present int // there already
	Missing int // not in the old namespace any more
	Dropped int // not taken: no room, over a budget, or not admitted
	Time    time.Duration
}

// ErrSizes says that blocks of one namespace are no blocks of the other.
var ErrSizes = errors.New("the namespaces have blocks of different sizes")

// Copy reads blocks from one namespace and puts them into another, parents before their
// children, atOnce at a time, at most perSecond (0: as fast as it goes). Whether the bytes mean the
// same there is the caller's to know.
func Copy(ctx context.Context, c *client.Client, from, to *client.Namespace, blocks []Block, atOnce int, perSecond float64) (done Copied, err error) {
	if from.BlockBytes() != to.BlockBytes() {
		return done, fmt.Errorf("%w: %d and %d bytes", ErrSizes, from.BlockBytes(), to.BlockBytes())
	}
	region, err := c.Allocate(int64(atOnce) * int64(from.BlockBytes()))
	if err != nil {
		return done, err
	}
	blocks = slices.Clone(blocks)
	slices.SortStableFunc(blocks, func(a, b Block) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Depth, b.Depth)) })
	began, n := time.Now(), 0
	for some := range slices.Chunk(blocks, atOnce) {
		if perSecond > 0 {
			if err := wait(ctx, time.Until(began.Add(time.Duration(float64(n)/perSecond*float64(time.Second))))); err != nil {
				return done, err
			}
		}
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		n += len(some)
		copySome(from, to, region, some, &done)
		done.Time = time.Since(began)
	}
	return done, nil
}

// copySome copies as many blocks as the region has rows.
func copySome(from, to *client.Namespace, region *client.Region, some []Block, done *Copied) {
	row := func(i int) []client.Block {
		return []client.Block{{Key: some[i].Key, Places: []client.Place{region.Row(i, from.BlockBytes())}}}
	}
	reads := make([]*client.Job, len(some))
	for i := range some {
		reads[i] = from.Get(row(i), client.GetOptions{Group: some[i].Group, NoTouch: true})
	}
	writes := make([]*client.Job, len(some))
	for i, read := range reads {
		if s := read.Wait().Statuses[0]; s != client.Hit {
			<-read.Released()
			done.Missing++
			continue
		}
		writes[i] = to.Put(row(i), client.PutOptions{Group: some[i].Group, Depth: some[i].Depth, Importance: some[i].Importance})
	}
	for _, write := range writes {
		if write == nil {
			continue
		}
		switch write.Wait().Statuses[0] {
		case client.Stored:
			done.Stored++
		case client.Present:
			done.Present++
		default:
			done.Dropped++
		}
		<-write.Released()
	}
}
