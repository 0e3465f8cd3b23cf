package rdma

import "github.com/spillway-kv/spillway/cluster/transport"

// serving is the side of a Transport that has the blocks.
type serving struct{ t *Transport }

func newServing(t *Transport) *serving { return &serving{t} }

func (s *serving) wrap(h transport.Handler) transport.Handler { return h }

func (s *serving) close() {}
