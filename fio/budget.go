// Package fio measures stores. For now it holds the gate: the verdict on
// whether the P99 of block reads stays under the time that one token may take.
package fio

import (
	"fmt"
	"time"
)

// The limits of a budget: a read never takes less than the one, and a token
// never more than the other.
const (
	budgetMin = time.Microsecond
	budgetMax = time.Hour
)

// ParseBudget reads a per-token compute time such as 30ms or 1.5s, from 1 us
// to 1 h. The unit is needed.
func ParseBudget(text string) (time.Duration, error) {
	budget, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time; write it like 30ms", text)
	}
	if budget < budgetMin || budget > budgetMax {
		return 0, fmt.Errorf("a budget of %q: it must lie between %v and %v", text, budgetMin, budgetMax)
	}
	return budget, nil
}
