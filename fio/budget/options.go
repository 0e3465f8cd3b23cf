package budget

//go:generate go test -run ^TestPage$ -update .

import (
	"reflect"
	"slices"
)

// Ask is what a command line says about a budget, word for word. Empty is not
// said. The zero Ask asks for no budget. The tags are those of kong; Options gives
// them to other parsers.
type Ask struct {
	Budget      string `name:"budget" placeholder:"TIME" help:"Time of one token, such as 12ms."`
	From        string `name:"budget-from" placeholder:"URL|FILE" complete:"file" help:"Address of a running engine's metrics, such as http://127.0.0.1:8000/metrics, or a file with a measurement."`
	Statistic   string `name:"budget-statistic" placeholder:"mean|pN" complete:"mean p50 p90 p99" help:"What to take of a metric: mean, or a quantile such as p50. Mean unless said."`
	Labels      string `name:"budget-labels" placeholder:"NAME=VALUE,..." help:"Which series of a metric count."`
	Interval    string `name:"budget-interval" placeholder:"TIME" help:"Time between two scrapes of a metric. One scrape unless said, of all since the engine started."`
	Preset      string `name:"budget-preset" placeholder:"NAME" complete:"strict default server" help:"strict: roofline of one sequence; default: MLPerf's interactive limit for the model; server: its server limit."`
	Model       string `name:"model" placeholder:"NAME" complete:"model" help:"Model, such as Llama-3.1-8B."`
	ModelConfig string `name:"model-config" placeholder:"FILE" complete:"file" help:"A model's config.json in the form of Hugging Face, in place of a name."`
	GPU         string `name:"gpu" placeholder:"NAME" complete:"gpu" help:"GPU, such as H100; auto takes the first of this machine."`
	TP          string `name:"tp" placeholder:"N" help:"GPUs that share each layer. 1 unless said."`
	PP          string `name:"pp" placeholder:"N" help:"Groups of GPUs, each with layers of its own. 1 unless said."`
	Batch       string `name:"batch" placeholder:"N" help:"Sequences decoded at once. 1 unless said."`
	Context     string `name:"context" placeholder:"TOKENS" help:"Tokens of each sequence, such as 8k. 4096 unless said."`
	Weights     string `name:"weights" placeholder:"PRECISION" complete:"bf16 fp8 fp4" help:"Of weights: bf16, fp8 or fp4. As published unless said."`
	Prefill     string `name:"prefill" placeholder:"TOKENS:TIME,..." help:"Measured times to compute prompts, such as 1k:40ms,8k:420ms, in place of the roofline's."`
	KV          string `name:"kv" placeholder:"PRECISION" complete:"bf16 fp8 fp4" help:"Of KV: bf16, fp8 or fp4. bf16 unless said."`
}

// Option is one word of a command line that an Ask understands.
type Option struct {
	Name, Placeholder, Help string
	field                   int
}

// Options are all of them.
var Options = options()

func options() (all []Option) {
	t := reflect.TypeFor[Ask]()
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		all = append(all, Option{tag.Get("name"), tag.Get("placeholder"), tag.Get("help"), i})
	}
	return all
}

// Set says one word of a command line; known is false if it is none of Options.
func (a *Ask) Set(name, value string) (known bool) {
	i := slices.IndexFunc(Options, func(o Option) bool { return o.Name == name })
	if i < 0 {
		return false
	}
	reflect.ValueOf(a).Elem().Field(Options[i].field).SetString(value)
	return true
}
