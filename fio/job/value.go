package job

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-kv/spillway/fio/units"
)

// UnitRule says how numbers and sizes are written, for help and reference.
const UnitRule = "Numbers and sizes: k M G T count by 1024, as in fio; KiB MiB GiB TiB by 1024, kB MB GB TB by 1000 " +
	"(fio swaps the last two: its 64MiB are 64,000,000 bytes). Case carries no meaning, fractions such as 1.5GiB are exact, " +
	"0x begins a hexadecimal number; a size without a unit is in bytes. Times: us ms s m h d; a bare number is in the unit that the option names."

// number reads a count or a size of at most most.
func number(text string, least, most int64) (int64, error) {
	var n int64
	var err error
	if digits, hex := strings.CutPrefix(strings.ToLower(text), "0x"); hex {
		if n, err = strconv.ParseInt(digits, 16, 64); err != nil {
			return 0, fmt.Errorf("%q is not a hexadecimal number from 0 to 2^63-1", text)
		}
	} else if n, err = units.ParseBytes(text); err != nil {
		return 0, err
	}
	if n < least || n > most {
		return 0, fmt.Errorf("%q is outside %s", text, between(least, most))
	}
	return n, nil
}

func between(least, most int64) string {
	if most == math.MaxInt64 {
		return fmt.Sprintf("what is allowed: at least %d", least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// timeUnits are fio's suffixes of times.
var timeUnits = map[string]time.Duration{
	"us": time.Microsecond, "usec": time.Microsecond, "ms": time.Millisecond, "msec": time.Millisecond,
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

// timeMax is the longest time, so that sums of a few cannot overflow.
const timeMax = 1000 * 24 * time.Hour

// span reads a time; bare is the unit of a number without one.
func span(text string, bare time.Duration) (time.Duration, error) {
	end := strings.LastIndexAny(text, "0123456789.") + 1
	digits, suffix := text[:end], strings.ToLower(text[end:])
	unit, known := timeUnits[suffix]
	switch {
	case suffix == "":
		unit = bare
	case digits != "" && !known:
		return 0, fmt.Errorf("%q has the unknown suffix %q; known are us ms s m h d", text, suffix)
	}
	if digits == "" || len(digits) > 40 || strings.Trim(digits, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is not a time; write it like 30s or 500ms", text)
	}
	value, ok := new(big.Rat).SetString(digits)
	if !ok {
		return 0, fmt.Errorf("%q is not a time; write it like 30s or 500ms", text)
	}
	value.Mul(value, new(big.Rat).SetInt64(int64(unit)))
	if value.Cmp(new(big.Rat).SetInt64(int64(timeMax))) > 0 {
		return 0, fmt.Errorf("%q is more than 1000d", text)
	}
	ns, _ := value.Float64()
	return time.Duration(math.Round(ns)), nil
}

// switched reads a flag; nothing means on.
func switched(text string) (bool, error) {
	switch text {
	case "", "1":
		return true, nil
	case "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither 0 nor 1", text)
}

// decimal reads a number with a point.
func decimal(text string) (float64, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) || strings.ContainsAny(text, "xX_") {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return value, nil
}

// amount reads a size or, with %, a share of the target.
func amount(text string) (Amount, error) {
	if digits, isShare := strings.CutSuffix(text, "%"); isShare {
		percent, err := strconv.Atoi(digits)
		if err != nil || percent < 1 || percent > 100 {
			return Amount{}, fmt.Errorf("%q is not a percentage from 1%% to 100%%", text)
		}
		return Amount{Percent: percent}, nil
	}
	n, err := number(text, 0, math.MaxInt64)
	return Amount{Bytes: n}, err
}

// eachDirection reads fio's "reads[,writes[,trims]]" and calls set for the directions
// that the list speaks of: the last value holds for the rest, an empty one
// leaves its direction as it was.
func eachDirection(text string, set func(direction int, text string) error) error {
	parts := strings.Split(text, ",")
	if len(parts) > 3 {
		return fmt.Errorf("%q has more than three values: reads, writes, trims", text)
	}
	if strings.Trim(text, ",") == "" {
		return errors.New("no value")
	}
	for direction := range 2 {
		part := parts[min(direction, len(parts)-1)]
		if part == "" {
			continue
		}
		if err := set(direction, part); err != nil {
			return err
		}
	}
	return nil
}

// oneOf reads one of some words.
func oneOf[T any](text string, words []word[T]) (T, error) {
	var known []string
	for _, w := range words {
		if w.text == text {
			return w.value, nil
		}
		known = append(known, w.text)
	}
	var none T
	say := fmt.Sprintf("%q is not one of %s", text, strings.Join(known, " "))
	if near := nearest(text, known); near != "" {
		say += "; the nearest is " + near
	}
	return none, errors.New(say)
}

// word is a word that stands for a value.
type word[T any] struct {
	text  string
	value T
}
