package budget

import (
	"fmt"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/tiering/model"
)

// The presets.
const (
	Strict  = "strict"  // roofline of one sequence
	Default = "default" // MLPerf's limit for interactive use
	Server  = "server"  // MLPerf's limit for a server
)

// Limit is what MLPerf Inference allows a model, as P99: times to the first token
// and of each further one.
type Limit struct {
	Model                              string // of the table
	ServerFirst, ServerToken           time.Duration
	InteractiveFirst, InteractiveToken time.Duration // 0: there is none
}

// Limits are those of loadgen/mlperf.conf of MLPerf Inference.
var Limits = []Limit{
	{"Llama-3.1-8B", 2000 * ms, 100 * ms, 500 * ms, 30 * ms},
	{"Llama-2-70B", 2000 * ms, 200 * ms, 450 * ms, 40 * ms},
	{"Mixtral-8x7B", 2000 * ms, 200 * ms, 0, 0},
	{"Llama-3.1-405B", 6000 * ms, 175 * ms, 4500 * ms, 80 * ms},
	{"DeepSeek-R1", 2000 * ms, 80 * ms, 1500 * ms, 15 * ms},
	{"gpt-oss-120b", 3000 * ms, 80 * ms, 2000 * ms, 15 * ms},
}

const ms = time.Millisecond

// sameLimit are models that MLPerf does not run, of the shape of one that it does.
var sameLimit = map[string]string{"Llama-3.1-70B": "Llama-2-70B", "DeepSeek-V3.2": "DeepSeek-R1"}

// LimitOf is MLPerf's limit for a model, or for one like it; nil: there is none.
func LimitOf(m *model.Model) *Limit {
	name := m.Name
	if like, ok := sameLimit[name]; ok {
		name = like
	}
	for i := range Limits {
		if Limits[i].Model == name {
			return &Limits[i]
		}
	}
	return nil
}

// preset gives the budget of a name.
func preset(name string, setup model.Setup) (*Budget, error) {
	if setup.Model == nil {
		return nil, usage("budget-preset", "%s needs a model: give --model", name)
	}
	switch name {
	case Strict:
		setup.Batch = 1
		b, err := roofline(setup)
		if err == nil {
			b.Where = "preset strict, " + b.Where
		}
		return b, err
	case Default, Server:
	default:
		return nil, usage("budget-preset", "no preset %q; there are %s, %s and %s", name, Strict, Default, Server)
	}
	limit := LimitOf(setup.Model)
	if limit == nil {
		var names []string
		for _, l := range Limits {
			names = append(names, l.Model)
		}
		return nil, usage("budget-preset", "MLPerf has no limit for %s, only for %s; take %s", setup.Model.Name, strings.Join(names, ", "), Strict)
	}
	d, kind := limit.InteractiveToken, "interactive"
	if name == Server {
		d, kind = limit.ServerToken, "server"
	}
	if d == 0 {
		return nil, usage("budget-preset", "MLPerf has no %s limit for %s; take %s", kind, setup.Model.Name, Server)
	}
	b := &Budget{PerToken: d, Source: MLPerf, Where: fmt.Sprintf("preset %s, MLPerf's %s limit for %s", name, kind, limit.Model)}
	return b, nil
}
