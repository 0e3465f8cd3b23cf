package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// settleTime is for what a store does behind its puts: its index is written and
// the directories of segments.
const settleTime = 5 * time.Second

// resident puts blocks up to each of Steps and looks at the memory there:
// "rss_N" is the process's, "index_N" what the store says of its table.
func (j *Job) resident(ctx context.Context) (Sample, error) {
	s, ns, err := j.open()
	if err != nil {
		return Sample{}, err
	}
	out := Sample{Values: map[string]float64{}}
	at := 0
	for i, blocks := range j.Steps {
		if err = j.putBlocks(ctx, ns, at, blocks, 0); err != nil {
			break
		}
		at = blocks
		time.Sleep(settleTime)
		debug.FreeOSMemory()
		st := s.Stat()
		if st.Blocks != blocks {
			err = fmt.Errorf("the store holds %d blocks of %d", st.Blocks, blocks)
			break
		}
		rss, rssErr := residentBytes()
		if err = rssErr; err != nil {
			break
		}
		out.Values[fmt.Sprintf("rss_%d", i)], out.Values[fmt.Sprintf("index_%d", i)] = rss, float64(st.IndexBytes)
	}
	return out, errors.Join(err, s.Close())
}

// reopen opens a store that was closed cleanly.
func (j *Job) reopen() (Sample, error) {
	began := time.Now()
	s, _, err := j.open()
	if err != nil {
		return Sample{}, err
	}
	seconds := time.Since(began).Seconds()
	return Sample{Seconds: seconds, CPUSeconds: cpuSeconds(), Values: map[string]float64{"blocks": float64(s.Stat().Blocks)}}, s.Close()
}

// scan opens the same index with Pebble alone and reads every block's entry.
func (j *Job) scan() (Sample, error) {
	began := time.Now()
	db, err := pebble.Open(filepath.Join(j.Dir, "index"), &pebble.Options{ReadOnly: true, DisableWAL: true,
		FormatMajorVersion: pebble.FormatValueSeparation})
	if err != nil {
		return Sample{}, err
	}
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("b"), UpperBound: []byte("c")})
	if err != nil {
		return Sample{}, errors.Join(err, db.Close())
	}
	entries, sum := 0, byte(0)
	for ok := it.First(); ok; ok = it.Next() {
		value := it.Value()
		sum += it.Key()[0] ^ value[len(value)-1]
		entries++
	}
	err = errors.Join(it.Error(), it.Close())
	seconds := time.Since(began).Seconds()
	return Sample{Seconds: seconds, CPUSeconds: cpuSeconds(), Values: map[string]float64{"blocks": float64(entries), "sum": float64(sum)}},
		errors.Join(err, db.Close())
}

// matchKeys is the length of the list whose longest prefix is asked for.
const matchKeys = 8192

// cost measures one call after the other of each kind, for a third of Runtime:
// "get_cpu_ns" and "put_cpu_ns" a block, "match_ns" and "match_cpu_ns" a key.
func (j *Job) cost(ctx context.Context) (Sample, error) {
	s, ns, err := j.open()
	if err != nil {
		return Sample{}, err
	}
	rng := rand.New(rand.NewPCG(j.Seed, 3))
	data, next, keys := device.AlignedBuffer(j.BlockBytes, pageBytes), j.First, make([]engine.Key, min(matchKeys, j.Blocks))
	out := Sample{Values: map[string]float64{}}
	kinds := []struct {
		name    string
		ops     float64 // per call
		prepare func()
		call    func() error
	}{
		{"get", 1, func() {}, func() error { return getOne(ns, rng.IntN(j.Blocks), data) }},
		{"match", float64(len(keys)), func() {
			at := rng.IntN(j.Blocks - len(keys) + 1)
			for i := range keys {
				keys[i] = key(at + i)
			}
		}, func() error { return match(ns, keys) }},
		{"put", 1, func() {}, func() error { next++; return put(ns, next, data) }},
	}
	for _, k := range kinds {
		var wall time.Duration
		var cpu, ops float64
		for end := time.Now().Add(j.Runtime / time.Duration(len(kinds))); err == nil && time.Now().Before(end); {
			k.prepare()
			wasCPU, began := cpuSeconds(), time.Now()
			for calls := 0; calls < 256 && err == nil; calls++ {
				err = k.call()
				ops += k.ops
				if k.ops > 1 {
					break
				}
			}
			wall += time.Since(began)
			cpu += cpuSeconds() - wasCPU
			err = errors.Join(err, ctx.Err())
		}
		out.Values[k.name+"_ns"], out.Values[k.name+"_cpu_ns"] = float64(wall.Nanoseconds())/ops, cpu*1e9/ops
	}
	return out, errors.Join(err, s.Close())
}

func match(ns *engine.Namespace, keys []engine.Key) error {
	m, err := ns.Match(keys, engine.MatchOptions{})
	if err == nil && m.Prefix != len(keys) {
		err = fmt.Errorf("a prefix of %d of %d keys", m.Prefix, len(keys))
	}
	return err
}
