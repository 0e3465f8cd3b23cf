package transporttest

import (
	"context"

	"github.com/spillway-kv/spillway/cluster/transport"
)

func testHello(k *kit) {
	client, server := k.node(), k.node()
	to := server.Address().String()
	for _, c := range []struct {
		change func(h *transport.Hello)
		want   error
	}{
		{func(h *transport.Hello) { h.PoolID = "other" }, transport.ErrForeign},
		{func(h *transport.Hello) { h.PoolID = "" }, transport.ErrForeign},
		{func(h *transport.Hello) { h.ProtocolLow, h.ProtocolHigh = 4, 9 }, transport.ErrVersion},
	} {
		self := client.self
		c.change(&self)
		_, err := client.Dial(k.Context(), to, self)
		k.is(err, c.want)
	}
	if len(server.h.peers) != 0 {
		k.Errorf("the handler was asked about %v", server.h.peers)
	}
	self := client.self
	self.ProtocolLow, self.ProtocolHigh = 0, 2
	l, err := client.Dial(k.Context(), to, self)
	k.must(err)
	if l.Version() != 2 {
		k.Errorf("version %d, want 2", l.Version())
	}
	k.alive(l)
	for refusal, code := range map[error]transport.Code{
		errFail: transport.CodeDenied, &transport.RemoteError{Code: transport.CodeJoining, Text: "later"}: transport.CodeJoining,
	} {
		server.h.mu.Lock()
		server.h.refuse = refusal
		server.h.mu.Unlock()
		_, err := client.Dial(k.Context(), to, client.self)
		k.remote(err, code)
	}
	k.alive(l)
	_, err = client.Dial(over(k), to, client.self)
	k.is(err, context.Canceled)
	server.close()
	if _, err := client.Dial(k.Context(), to, client.self); err == nil {
		k.Error("a node that is closed was reached")
	}
}

func testServe(k *kit) {
	n := k.node()
	if n.Name() == "" {
		k.Error("the transport has no name")
	}
	other := k.node()
	k.alive(n.link(other))
	n.close()
	if err := n.Close(); err != nil {
		k.Errorf("the second Close: %v", err)
	}
	if _, err := n.Dial(k.Context(), other.Address().String(), n.self); err == nil {
		k.Error("a closed transport dialled")
	}
	if err := n.Serve(n.self, n.h); err != nil {
		k.Errorf("Serve after Close: %v", err)
	}
}
