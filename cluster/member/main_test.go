package member

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// What the gossip library has under way ends by itself, within a probe interval.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}
