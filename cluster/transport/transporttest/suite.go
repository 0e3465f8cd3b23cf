// Package transporttest holds the one suite that every transport.Transport passes.
//
// It proves every byte that arrives, and watches memory that a transport was to let go
// of: a destination is filled with a pattern as soon as it may be, and must hold it to
// the end; a source is spoiled as soon as it may be, and what arrives must be from before.
//
// Beyond the words of package transport it fixes these points:
//   - A call whose context has ended already fails with the context's error; all blocks
//     of a Fetch are Late then, and released.
//   - The error of a call that its context ended matches the context's error, that of one
//     cut off by the link transport.ErrLost. That the peer's handler hears of a deadline
//     first does not change it.
//   - An answer may be empty; whether an empty one is nil is not said.
//   - Once the error of a handler has come, blocks of the Fetch that had not arrived are
//     Refused.
//   - Dial tells a refusal by Handler.Hello as a *transport.RemoteError: with the code of
//     the error, if it has one, or CodeDenied. Foreign pools and versions are judged
//     by the transport itself, at both ends: transport.ErrForeign, transport.ErrVersion.
package transporttest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/spillway-kv/spillway/cluster/member"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// Rig makes transports of one kind.
type Rig struct {
	// New makes a transport that reaches, and is reached by, all others of the same
	// test. The suite closes it. It allows at least 128 MiB in flight and 32 calls of
	// one peer at once.
	New func(t *testing.T) transport.Transport
	// Around runs a test, perhaps in a bubble; nil: as it is. Nothing here needs the
	// wall clock.
	Around func(t *testing.T, test func(t *testing.T))
}

// Run puts a kind of transport through the whole suite.
func Run(t *testing.T, r Rig) {
	for _, c := range []struct {
		name string
		test func(k *kit)
	}{
		{"Call", testCall},
		{"CallErrors", testCallErrors},
		{"FetchShapes", testFetchShapes},
		{"FetchStatuses", testFetchStatuses},
		{"FetchErrors", testFetchErrors},
		{"PushShapes", testPushShapes},
		{"PushErrors", testPushErrors},
		{"Together", testTogether},
		{"CallGivenUp", testCallGivenUp},
		{"FetchGivenUp", testFetchGivenUp},
		{"FetchDeadline", testFetchDeadline},
		{"PushGivenUp", testPushGivenUp},
		{"ServerGone", testServerGone},
		{"LinkClosed", testLinkClosed},
		{"CloseUnderLoad", testCloseUnderLoad},
		{"Hello", testHello},
		{"Serve", testServe},
	} {
		t.Run(c.name, func(t *testing.T) {
			around := r.Around
			if around == nil {
				around = func(t *testing.T, test func(t *testing.T)) { test(t) }
			}
			around(t, func(t *testing.T) {
				k := &kit{T: t, rig: r}
				defer k.end()
				c.test(k)
			})
		})
	}
}

// kit is what one test works with.
type kit struct {
	*testing.T
	rig     Rig
	nodes   []*node
	watched watched
}

// node is a transport that serves with a handler.
type node struct {
	transport.Transport
	k      *kit
	self   transport.Hello
	h      *handler
	served chan error
	once   sync.Once
}

// hello is what node number i says of itself.
func hello(i int) transport.Hello {
	return transport.Hello{PoolID: "pool", Node: member.ID{byte(i), 1}, Name: fmt.Sprintf("node-%d", i), ProtocolLow: 1, ProtocolHigh: 3}
}

func (k *kit) node() *node {
	k.Helper()
	return k.nodeAs(hello(len(k.nodes)))
}

func (k *kit) nodeAs(self transport.Hello) *node {
	k.Helper()
	n := &node{Transport: k.rig.New(k.T), k: k, self: self, h: newHandler(k), served: make(chan error, 1)}
	go func() { n.served <- n.Serve(n.self, n.h) }()
	k.nodes = append(k.nodes, n)
	return n
}

// link dials node to.
func (n *node) link(to *node) transport.Link {
	n.k.Helper()
	l, err := n.Dial(n.k.Context(), to.Address().String(), n.self)
	if err != nil {
		n.k.Fatal(err)
	}
	return l
}

// pair is two nodes and a link from one to the other.
func (k *kit) pair() (l transport.Link, server *node) {
	k.Helper()
	client, server := k.node(), k.node()
	return client.link(server), server
}

// close closes a transport, and proves that no handler runs and no source is in use.
func (n *node) close() {
	n.once.Do(func() {
		if err := n.Close(); err != nil {
			n.k.Errorf("Close: %v", err)
		}
		if err := <-n.served; err != nil {
			n.k.Errorf("Serve: %v", err)
		}
		if running := n.h.running.Load(); running != 0 {
			n.k.Errorf("%d handlers run after Close", running)
		}
		if out := n.h.lent.Load(); out != 0 {
			n.k.Errorf("%d blocks of replies were never done with", out)
		}
	})
}

func (k *kit) end() {
	for _, n := range k.nodes {
		n.close()
	}
	k.watched.check(k.T)
}

// some is n, or fewer under -short.
func some(n int) int {
	if testing.Short() {
		return (n + 2) / 3
	}
	return n
}

func (k *kit) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// remote wants err to be the word of a handler.
func (k *kit) remote(err error, code transport.Code) {
	k.Helper()
	if remote, ok := errors.AsType[*transport.RemoteError](err); !ok || remote.Code != code {
		k.Errorf("error %v (%T), want one of the peer's with code %d", err, err, code)
	}
}

func (k *kit) is(err, want error) {
	k.Helper()
	if !errors.Is(err, want) {
		k.Errorf("error %v, want one that matches %q", err, want)
	}
}

// alive proves that a link still works.
func (k *kit) alive(l transport.Link) {
	k.Helper()
	answer, err := l.Call(k.Context(), kindEcho, []byte("alive"))
	if err != nil || string(answer) != "evila" {
		k.Errorf("a call afterwards: %q, %v", answer, err)
	}
	select {
	case <-l.Gone():
		k.Errorf("the link is gone")
	default:
	}
}
