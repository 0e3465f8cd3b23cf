package model

import "fmt"

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

// GPUOfBus is a GPU of which only the bus to its memory is known, in bits, with the
// highest clock of that memory, in MHz: bandwidth = bits / 8 x clock x 2. By this rule
// an H100 SXM has 3352 GB/s (5120 bits at 2619 MHz) where its datasheet says 3350, and an
// H200 4917 (6144 at 3201) where it says 4800. Its arithmetic stays unknown: a decode
// step is bound by memory then, and the time of a prompt is unknown.
func GPUOfBus(name string, widthBits, clockMHz int) *GPU {
	return &GPU{Name: name, GBps: float64(widthBits) / 8 * float64(clockMHz) * 2 / 1000,
		Source: fmt.Sprintf("memory bus of %d bits at %d MHz, as the driver says", widthBits, clockMHz)}
}

// TFLOPS is the peak for weights of a precision. Weights that a GPU cannot multiply
// as they are become BF16 on the way.
func (g *GPU) TFLOPS(weights Precision) float64 {
	switch {
	case weights == FP8 && g.FP8TFLOPS > 0:
		return g.FP8TFLOPS
	case weights == FP4 && g.FP4TFLOPS > 0:
		return g.FP4TFLOPS
	}
	return g.BF16TFLOPS
}
