package units

import (
	"fmt"
	"math/big"
	"strings"
)

// suffixes holds the suffixes in lower case. Case carries no meaning: there
// are no bits and no milli in sizes.
var suffixes = map[string]int64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
	"t": 1 << 40, "tib": 1 << 40, "tb": 1e12,
}

// ParseBytes reads a number of bytes such as 64KiB, 1.5GiB or 4096. One space
// may stand before the suffix. The result must be a whole number of bytes from
// 0 to 2^63-1.
func ParseBytes(text string) (int64, error) {
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, suffix := text[:end], strings.TrimPrefix(text[end:], " ")
	unit, known := suffixes[strings.ToLower(suffix)]
	switch {
	case text == "":
		return 0, fmt.Errorf("an empty size; write it like 64KiB")
	case strings.HasPrefix(text, "-"):
		return 0, fmt.Errorf("%q is negative", text)
	case number == "" || strings.Trim(number, "0123456789.") != "":
		return 0, fmt.Errorf("%q is not a size; write it like 64KiB", text)
	case !known:
		return 0, fmt.Errorf("%q has the unknown suffix %q; known are KiB MiB GiB TiB (1024), kB MB GB TB (1000), k M G T (1024)", text, suffix)
	case len(number) > 40:
		return 0, fmt.Errorf("%.10s... has too many digits", text)
	}
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("%q is not a size; write it like 64KiB", text)
	}
	value.Mul(value, new(big.Rat).SetInt64(unit))
	if !value.IsInt() {
		return 0, fmt.Errorf("%q is not a whole number of bytes", text)
	}
	if !value.Num().IsInt64() {
		return 0, fmt.Errorf("%q is more than 2^63-1 bytes", text)
	}
	return value.Num().Int64(), nil
}
