package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/tiering/trace"
)

// TestTooLong: a trace beyond the bound is refused, and the message says what fits.
func TestTooLong(t *testing.T) {
	source := func() trace.Source { return trace.NewGenerator(trace.Config{Seed: 4, Requests: 50}) }
	whole, err := loadUpTo(t.Context(), source(), nil, ReferencesMax)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loadUpTo(t.Context(), source(), nil, len(whole.Blocks)); err != nil {
		t.Errorf("a trace of the limit: %v", err)
	}
	_, err = loadUpTo(t.Context(), source(), nil, len(whole.Blocks)-1)
	if !errors.Is(err, ErrTooLong) || !strings.Contains(err.Error(), "its first 49 requests") {
		t.Errorf("%v", err)
	}
}
