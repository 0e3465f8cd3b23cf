package node

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-kv/spillway/cluster/wire"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/tiering/model"
)

// compute is what a node knows of the time to compute a prefix of a namespace. The
// zero value knows nothing.
type compute struct {
	from     string        // where it is from: namespace, model, gate; empty: nowhere
	perToken time.Duration // a number
	setup    *model.Setup  // in place of a number: the model on its GPUs
}

// Where a compute time is from.
const (
	computeFromRule  = "namespace" // the operator's number for the namespace
	computeFromModel = "model"     // the roofline of the model that the descriptor names
	computeFromGate  = "gate"      // the operator's number for all, or the roofline of a model for all
)

// computeOf is what is known of a namespace: a number for it, else the roofline of its
// model, else the roofline of a model for all or a number for all.
func (o *Options) computeOf(d *engine.Descriptor) *compute {
	if perToken := o.Namespaces[d.Name].ComputePerToken; perToken > 0 {
		return &compute{from: computeFromRule, perToken: perToken}
	}
	if setup := o.setupOf(d.Model, d.TensorParallel, d.PipelineSize); setup != nil {
		return &compute{from: computeFromModel, setup: setup}
	}
	if setup := o.Setup(); setup != nil {
		return &compute{from: computeFromGate, setup: setup}
	}
	if o.ComputePerToken > 0 {
		return &compute{from: computeFromGate, perToken: o.ComputePerToken}
	}
	return &compute{}
}

// Setup is Options.Model on Options.GPU; nil if either is not known.
func (o *Options) Setup() *model.Setup { return o.setupOf(o.Model, o.TensorParallel, 1) }

// setupOf is a model on so many GPUs of the node's; nil if model or GPU are not known.
func (o *Options) setupOf(name string, tensor, pipeline int) *model.Setup {
	if o.GPU == "" || name == "" {
		return nil
	}
	gpu, err := model.FindGPU(o.GPU)
	if err != nil {
		return nil
	}
	m, err := model.Find(name)
	if err != nil {
		return nil
	}
	setup := model.Setup{Model: m, GPU: gpu, Tensor: tensor, Pipeline: pipeline}.WithDefaults()
	if setup.Validate() != nil || setup.Prefill(1).Time == 0 {
		return nil
	}
	return &setup
}

// validateCompute checks what Setup needs.
func (o *Options) validateCompute() error {
	if o.GPU != "" {
		if _, err := model.FindGPU(o.GPU); err != nil {
			return fmt.Errorf("%w: %w", ErrOptions, err)
		}
	}
	if o.TensorParallel < 0 || o.TensorParallel > model.GPUsMax {
		return fmt.Errorf("%w: TP %d: want 1 to %d GPUs", ErrOptions, o.TensorParallel, model.GPUsMax)
	}
	if o.Model == "" {
		return nil
	}
	if _, err := model.Find(o.Model); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if o.GPU == "" {
		return fmt.Errorf("%w: a model (%s) without a GPU tells no time", ErrOptions, o.Model)
	}
	if o.ComputePerToken > 0 {
		return fmt.Errorf("%w: a model (%s) and a time to compute a token (%v): give one of them", ErrOptions, o.Model, o.ComputePerToken)
	}
	return nil
}

// prefix is the time to compute a prefix of so many tokens from its beginning; 0 if it is
// not known.
func (c *compute) prefix(tokens int) time.Duration {
	switch {
	case tokens <= 0:
		return 0
	case c.setup != nil:
		return c.setup.Prefill(tokens).Time
	}
	return time.Duration(min(float64(tokens)*float64(c.perToken), math.MaxInt64/2))
}

// computing is the time to compute the blocks of a prefix, at the time for each
// that a Match gives or as the node knows it; 0 if it does not.
func (s *space) computing(blocks int, perBlockUS uint32) time.Duration {
	if perBlockUS != wire.ComputeKnown {
		return time.Duration(blocks) * time.Duration(perBlockUS) * time.Microsecond
	}
	return s.compute.Load().prefix(blocks * s.tokensPerBlock)
}

// hurry is a deadline in microseconds, 0 for none, or the time to compute so many
// blocks if that is known and shorter.
func (s *space) hurry(blocks int, deadlineUS uint32) uint32 {
	known := s.computing(blocks, wire.ComputeKnown)
	if known <= 0 {
		return deadlineUS
	}
	us := uint32(min(max(known.Microseconds(), 1), math.MaxUint32))
	if deadlineUS > 0 {
		us = min(us, deadlineUS)
	}
	return us
}
