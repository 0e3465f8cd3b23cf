package budget

import "strings"

// metric is a histogram of an engine whose observations are times of one token, in
// seconds.
type metric struct {
	engine, name string
	labels       string // that its series must have
	note         string // what is special about it
}

// metrics are all known ones, the best of each engine first. A colon in a name is
// an underscore for some exporters, and the two are taken as one.
var metrics = []metric{
	{engine: "vllm", name: "vllm:inter_token_latency_seconds"},
	{engine: "vllm", name: "vllm:time_per_output_token_seconds"},
	{engine: "vllm", name: "vllm:request_time_per_output_token_seconds", note: perRequest},
	{engine: "sglang", name: "sglang:inter_token_latency_seconds"},
	{engine: "sglang", name: "sglang:time_per_output_token_seconds"},
	{engine: "tensorrt-llm", name: "trtllm_time_per_output_token_seconds"},
	{engine: "tgi", name: "tgi_request_mean_time_per_token_duration", note: perRequest},
	{engine: "tgi", name: "tgi_batch_forward_duration", labels: "method=decode", note: "it is the time of a decode step, without what the engine does between two"},
}

const perRequest = "each observation is the mean of one request, so its quantiles are of requests and not of tokens"

// plainName makes one of the spellings of a metric's name.
func plainName(name string) string { return strings.ReplaceAll(name, ":", "_") }

// engineOf names the engine that a metric of any kind belongs to; empty: none that
// is known.
func engineOf(name string) string {
	for prefix, engine := range map[string]string{"vllm_": "vllm", "sglang_": "sglang", "trtllm_": "tensorrt-llm", "tgi_": "tgi"} {
		if strings.HasPrefix(plainName(name), prefix) {
			return engine
		}
	}
	return ""
}
