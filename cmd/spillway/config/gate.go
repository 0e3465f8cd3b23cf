package config

import (
	"fmt"
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

// check names the key that is wrong.
func (g *Gate) check() error {
	if g.TP < 1 {
		return &Error{Text: fmt.Sprintf("gate.tp is %d; want 1 or more", g.TP)}
	}
	if g.GPU != "" {
		if _, err := model.FindGPU(g.GPU); err != nil {
			return &Error{Text: fmt.Sprintf("gate.gpu: %v; spillway budget --list=gpus shows those that are known", err)}
		}
	}
	if g.Model != "" {
		if _, err := model.Find(g.Model); err != nil {
			return &Error{Text: fmt.Sprintf("gate.model: %v; spillway budget --list=models shows those that are known", err)}
		}
	}
	return nil
}

// PromptToken is the time to compute one token of a prompt: compute_per_token, else the
// mean over a prompt of promptTokens by the roofline of the model; 0: unknown.
func (g *Gate) PromptToken() time.Duration {
	if s := g.setup(); s != nil && g.ComputePerToken.Duration == 0 {
		return s.Prefill(promptTokens).PerToken
	}
	return g.ComputePerToken.Duration
}
