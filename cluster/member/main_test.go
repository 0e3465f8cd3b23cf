package member

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines that are left, and gives those of the gossip library time:
// what it has under way at Close ends by itself, within some probe intervals.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			err := goleak.Find()
			if err == nil {
				break
			}
			if time.Now().After(end) {
				fmt.Fprintln(os.Stderr, err)
				code = 1
				break
			}
		}
	}
	os.Exit(code)
}
