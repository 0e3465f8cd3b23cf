package config

import (
	"time"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/tiering/model"
)

// promptTokens is the length of the prompt that one number for all stands for.
const promptTokens = 4096

// setup is the model of [gate] on its GPU; nil if there is none.
func (g *Gate) setup() *model.Setup {
	o := node.Options{GPU: g.GPU, Model: g.Model, TensorParallel: g.TP}
	return o.Setup()
}

// PromptToken is the time to compute one token of a prompt: compute_per_token, else the
// mean over a prompt of promptTokens by the roofline of the model; 0: unknown.
func (g *Gate) PromptToken() time.Duration {
	if s := g.setup(); s != nil && g.ComputePerToken.Duration == 0 {
		return s.Prefill(promptTokens).PerToken
	}
	return g.ComputePerToken.Duration
}
