package work

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/spillway-kv/spillway/client"
)

// seconds sums the CPU time of the job's daemons so far.
func (j *Job) daemonSeconds() (sum float64) {
	for _, pid := range j.Daemons {
		sum += processSeconds(pid)
	}
	return sum
}

// dialled is a namespace of a daemon that is there already.
func (j *Job) dialled(ctx context.Context) (*client.Client, *client.Namespace, error) {
	c, err := client.Dial(ctx, client.Options{Path: j.Socket})
	if err != nil {
		return nil, nil, err
	}
	ns, err := c.Namespace(ctx, j.descriptor(), "")
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, ns, nil
}

// poolFill puts Blocks blocks from First on, through a daemon.
func (j *Job) poolFill(ctx context.Context) (sample Sample, err error) {
	c, ns, err := j.dialled(ctx)
	if err != nil {
		return sample, err
	}
	defer c.Close()
	const batch = 16
	rows, err := c.Allocate(batch * int64(j.BlockBytes))
	if err != nil {
		return sample, err
	}
	for n := j.First; n < j.First+j.Blocks; n += batch {
		blocks := make([]client.Block, min(batch, j.First+j.Blocks-n))
		for i := range blocks {
			Scramble(rows.Bytes()[i*j.BlockBytes:][:j.BlockBytes], uint64(n+i))
			blocks[i] = client.Block{Key: key(n + i).Bytes, Places: []client.Place{rows.Row(i, j.BlockBytes)}}
		}
		for i, s := range ns.Put(blocks, client.PutOptions{Durable: true, Timeout: time.Minute}).Wait().Statuses {
			if s != client.Stored && s != client.Present {
				return sample, fmt.Errorf("block %d: %v", n+i, s)
			}
		}
		if err := ctx.Err(); err != nil {
			return sample, err
		}
	}
	return sample, nil
}

// tries is how often a call is made whose blocks a busy machine did not bring in time.
const tries = 3

// poolRead gets blocks through a daemon, from First on, Batch of them a call. With Beside,
// one more caller asks for blocks of another range meanwhile, which is not measured.
func (j *Job) poolRead(ctx context.Context) (sample Sample, err error) {
	c, ns, err := j.dialled(ctx)
	if err != nil {
		return sample, err
	}
	defer c.Close()
	batch := max(j.Batch, 1)
	rows, err := c.Allocate(int64(j.Depth*batch+1) * int64(j.BlockBytes))
	if err != nil {
		return sample, err
	}
	if err := j.poolWarm(ctx, ns, rows); err != nil {
		return sample, err
	}
	over := make(chan struct{})
	var beside sync.WaitGroup
	if j.Beside > 0 {
		beside.Go(func() { j.ask(ns, rows, over) })
	}
	before := j.daemonSeconds()
	sample, err = j.measure(ctx, func(worker int) (doer, error) {
		rng := rand.New(rand.NewPCG(j.Seed, uint64(worker)))
		blocks := make([]client.Block, batch)
		for i := range blocks {
			blocks[i].Places = []client.Place{rows.Row(worker*batch+i, j.BlockBytes)}
		}
		return func() (bool, error) {
			for i, n := range rng.Perm(j.Blocks)[:batch] {
				blocks[i].Key = key(j.First + n).Bytes
			}
			return true, poolGet(ns, blocks)
		}, nil
	})
	sample.CPUSeconds += j.daemonSeconds() - before
	sample.Ops *= float64(batch)
	sample.IOPS *= float64(batch)
	close(over)
	beside.Wait()
	return sample, err
}

// poolWarm waits until the daemon reaches who has the blocks, and has what it can have of
// them in memory.
func (j *Job) poolWarm(ctx context.Context, ns *client.Namespace, rows *client.Region) error {
	block := []client.Block{{Places: []client.Place{rows.Row(0, j.BlockBytes)}}}
	began := time.Now()
	for n := j.First; n < j.First+j.Warm; {
		block[0].Key = key(n).Bytes
		err := poolGet(ns, block)
		switch {
		case err == nil:
			n++
		case ctx.Err() != nil || time.Since(began) > time.Minute:
			return err
		default:
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

func poolGet(ns *client.Namespace, blocks []client.Block) error {
	var statuses []client.Status
	for range tries {
		statuses = ns.Get(blocks, client.GetOptions{NoTouch: true}).Wait().Statuses
		if !slices.ContainsFunc(statuses, func(s client.Status) bool { return s != client.Hit }) {
			return nil
		}
	}
	return fmt.Errorf("blocks from %s on: %v", blocks[0].Key, statuses)
}

// ask asks for blocks from Beside on, whatever comes of it.
func (j *Job) ask(ns *client.Namespace, rows *client.Region, over <-chan struct{}) {
	block := []client.Block{{Places: []client.Place{rows.Row(j.Depth*max(j.Batch, 1), j.BlockBytes)}}}
	for n := 0; ; n++ {
		select {
		case <-over:
			return
		default:
		}
		block[0].Key = key(j.Beside + n%j.Blocks).Bytes
		ns.Get(block, client.GetOptions{NoTouch: true, Bounce: true, Timeout: 50 * time.Millisecond}).Wait()
	}
}

// poolMatch asks how many of Blocks keys are there, one call after the other.
func (j *Job) poolMatch(ctx context.Context) (sample Sample, err error) {
	c, ns, err := j.dialled(ctx)
	if err != nil {
		return sample, err
	}
	defer c.Close()
	keys := make([][]byte, j.Blocks)
	for i := range keys {
		keys[i] = key(j.First + i).Bytes
	}
	before := j.daemonSeconds()
	sample, err = j.measure(ctx, func(int) (doer, error) {
		return func() (bool, error) {
			for range tries {
				if got := ns.Match(keys, client.MatchOptions{}).Prefix; got == j.Warm {
					return true, nil
				}
			}
			return true, fmt.Errorf("not %d of %d keys are there", j.Warm, j.Blocks)
		}, nil
	})
	sample.CPUSeconds += j.daemonSeconds() - before
	return sample, err
}
