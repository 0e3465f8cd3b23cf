package rdma

import "github.com/spillway-kv/spillway/cluster/transport"

// Link is a link to one peer, over which blocks come by RDMA while there is a session.
type Link struct {
	transport.Link // the control's
	t              *Transport
	peer           *peer
}

func newLink(t *Transport, control transport.Link) *Link {
	return &Link{Link: control, t: t, peer: t.peer(control.Peer().Node)}
}

func (l *Link) keep() {}
