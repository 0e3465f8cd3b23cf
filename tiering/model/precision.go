package model

import (
	"fmt"
	"strings"
)

// Precision is how a number is kept. The zero value means: as the model was
// published for weights, BF16 for KV.
type Precision uint8

// The precisions.
const (
	Unset Precision = iota
	BF16            // or FP16: 2 bytes
	FP8             // 1 byte; scales are left out
	FP4             // MXFP4: half a byte, and one byte of scale for 32 numbers
)

var precisionNames = [...]string{Unset: "", BF16: "bf16", FP8: "fp8", FP4: "fp4"}

func (p Precision) String() string { return precisionNames[p] }

// Precisions are those that ParsePrecision knows.
func Precisions() []string { return precisionNames[BF16:] }

// ParsePrecision reads bf16, fp16, fp8 or fp4; empty is Unset.
func ParsePrecision(text string) (Precision, error) {
	name := strings.ToLower(text)
	if name == "fp16" {
		return BF16, nil
	}
	for p, n := range precisionNames {
		if n == name {
			return Precision(p), nil
		}
	}
	return Unset, fmt.Errorf("%q is not a precision; known are %s", text, strings.Join(Precisions(), ", "))
}

// or is p, or what it is taken for when it is not set.
func (p Precision) or(fallback Precision) Precision {
	if p == Unset {
		return fallback
	}
	return p
}

// Bytes of so many numbers; Unset is taken for BF16.
func (p Precision) Bytes(count float64) float64 {
	switch p.or(BF16) {
	case FP8:
		return count
	case FP4:
		return count * 17 / 32
	}
	return count * 2
}
