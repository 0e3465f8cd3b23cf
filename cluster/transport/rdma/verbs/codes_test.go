package verbs

import (
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

func TestCodes(t *testing.T) {
	for _, c := range []struct {
		code   int
		name   string
		result fabric.Result
	}{
		{0, "SUCCESS", fabric.OK},
		{5, "WR_FLUSH_ERR", fabric.Flushed},
		{10, "REM_ACCESS_ERR", fabric.RemoteDenied},
		{12, "RETRY_EXC_ERR", fabric.NoAnswer},
		{13, "RNR_RETRY_EXC_ERR", fabric.NoReceive},
		{21, "GENERAL_ERR", fabric.OtherFault},
	} {
		if CodeName(c.code) != c.name || codes[c.code].result != c.result {
			t.Errorf("code %d: %s, %v, want %s, %v", c.code, CodeName(c.code), codes[c.code].result, c.name, c.result)
		}
	}
	for _, code := range []int{-1, len(codes), 1000} {
		CodeName(code) // does not panic
	}
	for i, c := range codes {
		if c.name == "" || (c.result == fabric.OK) != (i == 0) {
			t.Errorf("code %d: %+v", i, c)
		}
	}
}
