package member_test

import (
	"os"
	"testing"

	"github.com/spillway-kv/spillway/cluster/member/membertest"
)

func TestMain(m *testing.M) { os.Exit(membertest.Run(m)) }
