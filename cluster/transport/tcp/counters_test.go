package tcp

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSparing: a stranger who comes back every second leaves a line a minute.
func TestSparing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var s sparing
		for range 180 {
			s.warn(slog.New(slog.NewTextHandler(&out, nil)), "turned away", "from", "somebody")
			time.Sleep(time.Second)
		}
		if n := strings.Count(out.String(), "turned away"); n != 3 {
			t.Errorf("%d lines in three minutes:\n%s", n, out.String())
		}
	})
}
