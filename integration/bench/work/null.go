package work

import (
	"context"
	"errors"

	"github.com/spillway-kv/spillway/engine/device"
)

// null drives the null device, Depth requests at once: what the device layer
// itself costs a request.
func (j *Job) null(ctx context.Context) (Sample, error) {
	d, err := device.NewNull(device.Options{Engine: j.IOEngine, Rings: j.Rings, QueueDepth: max(j.Depth, 32)})
	if err != nil {
		return Sample{}, err
	}
	f, err := d.Create("null", int64(j.BlockBytes))
	if err != nil {
		return Sample{}, errors.Join(err, d.Close())
	}
	s, err := j.measure(ctx, func(int) (doer, error) {
		ended := make(chan struct{}, 1)
		op := &device.Op{Kind: device.Read, File: f, Bufs: [][]byte{device.AlignedBuffer(j.BlockBytes, pageBytes)}}
		op.Done = func(*device.Op) { ended <- struct{}{} }
		ops := []*device.Op{op}
		return func() (bool, error) {
			d.Submit(ops)
			<-ended
			return true, op.Err
		}, nil
	})
	return s, errors.Join(err, f.Close(), d.Close())
}
