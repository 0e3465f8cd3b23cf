package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// server answers one kind of call; it has the shape that peers call it in. What it
// returns as an error is told to the caller, see remoteError.
type server struct {
	call  func(ctx context.Context, from transport.Hello, body []byte) ([]byte, error)
	fetch func(ctx context.Context, from transport.Hello, body []byte, n int, r transport.Reply) ([]byte, error)
	push  func(ctx context.Context, from transport.Hello, body []byte, in transport.Incoming) ([]byte, error)
}

// handler serves the calls of peers.
type handler struct{ p *Pool }

// Hello implements transport.Handler.
func (h handler) Hello(from transport.Hello) error {
	switch {
	case from.PoolID != h.p.o.PoolID:
		return &transport.RemoteError{Code: transport.CodeDenied, Text: fmt.Sprintf("this is pool %q, not %q", h.p.o.PoolID, from.PoolID)}
	case from.Node == h.p.o.Node:
		return &transport.RemoteError{Code: transport.CodeDenied, Text: fmt.Sprintf("node %v is this one: %q and %q have one identity", from.Node, h.p.o.Name, from.Name)}
	}
	return nil
}

// enter begins a call of a peer; serving.Done ends it.
func (h handler) enter() error {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	if h.p.closing {
		return &transport.RemoteError{Code: transport.CodeClosing, Text: "this node stops"}
	}
	h.p.serving.Add(1)
	return nil
}

// Call implements transport.Handler.
func (h handler) Call(ctx context.Context, from transport.Hello, kind transport.Kind, body []byte) ([]byte, error) {
	s := h.p.servers[kind].call
	if s == nil {
		return nil, unknownKind(kind)
	}
	if err := h.enter(); err != nil {
		return nil, err
	}
	defer h.p.serving.Done()
	answer, err := s(ctx, from, body)
	return answer, remoteError(err)
}

// Fetch implements transport.Handler.
func (h handler) Fetch(ctx context.Context, from transport.Hello, kind transport.Kind, body []byte, n int, r transport.Reply) ([]byte, error) {
	s, err := h.p.servers[kind].fetch, error(nil)
	if s == nil {
		err = unknownKind(kind)
	} else {
		err = h.enter()
	}
	if err != nil {
		refuseAll(r, n)
		return nil, err
	}
	defer h.p.serving.Done()
	answer, err := s(ctx, from, body, n, r)
	return answer, remoteError(err)
}

// Push implements transport.Handler.
func (h handler) Push(ctx context.Context, from transport.Hello, kind transport.Kind, body []byte, in transport.Incoming) ([]byte, error) {
	s := h.p.servers[kind].push
	if s == nil {
		return nil, unknownKind(kind)
	}
	if err := h.enter(); err != nil {
		return nil, err
	}
	defer h.p.serving.Done()
	answer, err := s(ctx, from, body, in)
	return answer, remoteError(err)
}

func refuseAll(r transport.Reply, n int) {
	for i := range n {
		r.None(i, transport.Refused)
	}
}

func unknownKind(kind transport.Kind) error {
	return &transport.RemoteError{Code: transport.CodeUnknown, Text: fmt.Sprintf("no call of kind %#x", uint8(kind))}
}

// remoteError is what a peer is told of an error here.
func remoteError(err error) error {
	var told *transport.RemoteError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &told):
		return told
	case errors.Is(err, peer.ErrMalformed):
		return &transport.RemoteError{Code: transport.CodeMalformed, Text: err.Error()}
	}
	return &transport.RemoteError{Code: transport.CodeInternal, Text: err.Error()}
}

// codeOf is the code of a peer's refusal; ok is false for any other error.
func codeOf(err error) (code transport.Code, ok bool) {
	var told *transport.RemoteError
	if !errors.As(err, &told) {
		return 0, false
	}
	return told.Code, true
}

// serveProbe answers probes: what came goes back.
func (p *Pool) serveProbe() {
	p.servers[peer.KindProbe].call = func(_ context.Context, _ transport.Hello, body []byte) ([]byte, error) {
		if err := peer.ParseProbe(body); err != nil {
			return nil, err
		}
		return body, nil
	}
}
