package membertest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leavingTime is more than the gossip library needs for what it has under way when a
// membership is closed: some probe intervals, or the time of an exchange that hangs.
const leavingTime = 90 * time.Second

// Run is for a TestMain whose tests have real memberships: it runs the tests, and fails if
// goroutines are left. Those of the gossip library have time to end by themselves.
func Run(m *testing.M) (code int) {
	if code = m.Run(); code != 0 {
		return code
	}
	for end := time.Now().Add(leavingTime); ; time.Sleep(20 * time.Millisecond) {
		err := goleak.Find()
		if err == nil {
			return 0
		}
		if time.Now().After(end) {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}
