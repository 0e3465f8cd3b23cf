package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/spillway-kv/spillway/engine/device"
)

// filePath is where a block's file lies: named by its key, in one of 256 folders.
func (j *Job) filePath(n int) string {
	return filepath.Join(j.Dir, fmt.Sprintf("%02x", n%256), string(key(n).Bytes))
}

// fillFiles writes one file per block.
func (j *Job) fillFiles(ctx context.Context) error {
	for i := range 256 {
		if err := os.MkdirAll(filepath.Dir(j.filePath(i)), 0o755); err != nil {
			return err
		}
	}
	data := make([]byte, j.BlockBytes)
	for n := range j.Blocks {
		Scramble(data, uint64(n))
		if err := errors.Join(ctx.Err(), os.WriteFile(j.filePath(n), data, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// readFiles opens, reads and closes one file per call, as a cache without an
// index does.
func (j *Job) readFiles(ctx context.Context) (Sample, error) {
	data := device.AlignedBuffer(j.BlockBytes, pageBytes)
	for n := range j.Blocks {
		var err error
		switch j.Cache {
		case Cold:
			err = forget(j.filePath(n))
		case Warm:
			err = readFile(os.Open, j.filePath(n), data)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return Sample{}, err
		}
	}
	open := os.Open
	if j.Cache == Direct {
		open = openDirect
	}
	buffers, free, err := j.buffers(nil, j.Depth)
	if err != nil {
		return Sample{}, err
	}
	defer free()
	return j.measure(ctx, func(worker int) (doer, error) {
		rng := rand.New(rand.NewPCG(j.Seed, uint64(worker)))
		data := buffers[worker]
		return func() (bool, error) { return true, readFile(open, j.filePath(rng.IntN(j.Blocks)), data) }, nil
	})
}

func readFile(open func(string) (*os.File, error), path string, data []byte) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	_, err = io.ReadFull(f, data)
	return errors.Join(err, f.Close())
}
