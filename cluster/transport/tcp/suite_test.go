package tcp_test

import (
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/transport/tcp"
	"github.com/spillway-kv/spillway/cluster/transport/transporttest"
)

func listen(t *testing.T, o tcp.Options) *tcp.Transport {
	t.Helper()
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	n, err := tcp.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestSuite(t *testing.T) {
	transporttest.Run(t, transporttest.Rig{New: func(t *testing.T) transport.Transport { return listen(t, tcp.Options{}) }})
}
