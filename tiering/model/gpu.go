package model

// GPU is a kind of GPU: its peaks, dense. 0 is unknown, or not to be had.
type GPU struct {
	Name       string  // as NVML or its maker calls it
	GBps       float64 // of its memory, 10^9 bytes a second
	BF16TFLOPS float64
	FP8TFLOPS  float64 // 0: computes in BF16
	FP4TFLOPS  float64 // 0: computes in BF16
	LinkGBps   float64 // to the host, each way, in theory
	MemoryGB   float64 // 10^9 bytes
	Source     string  // where the figures come from
}

// tflops is the peak for weights of a precision. Weights that a GPU cannot multiply
// as they are become BF16 on the way.
func (g *GPU) tflops(weights Precision) float64 {
	switch {
	case weights == FP8 && g.FP8TFLOPS > 0:
		return g.FP8TFLOPS
	case weights == FP4 && g.FP4TFLOPS > 0:
		return g.FP4TFLOPS
	}
	return g.BF16TFLOPS
}
