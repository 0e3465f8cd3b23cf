package pool

import (
	"context"
	"errors"

	"github.com/spillway-kv/spillway/cluster/peer"
	"github.com/spillway-kv/spillway/cluster/transport"
)

// errFull: as many calls to this peer are under way as may be.
var errFull = errors.New("too many calls to the peer are under way")

// call makes a small call about blocks of of: the body is their scope and then rest. ctx
// is to end with the call's full time, whoever waits for it: so the peer is judged by it.
func (r *remote) call(ctx context.Context, of Of, kind transport.Kind, rest []byte) (answer []byte, err error) {
	err = r.timed(ctx, func(link transport.Link) error {
		return r.scoped(ctx, link, of, func(scope []byte) (err error) {
			answer, err = link.Call(ctx, kind, append(scope, rest...))
			return err
		})
	})
	return answer, err
}

// timed makes a small call over the link, counts it and judges the peer by it.
func (r *remote) timed(ctx context.Context, do func(transport.Link) error) error {
	select {
	case r.calls <- struct{}{}:
		defer func() { <-r.calls }()
	default:
		r.counts.skipped.Add(1)
		return errFull
	}
	link, err := r.ready(ctx)
	if err != nil {
		r.counts.skipped.Add(1)
		return err
	}
	err = do(link)
	if r.ctx.Err() != nil {
		return err
	}
	r.judge(err)
	return err
}

// scoped makes a call about blocks: do gets their scope, with which the body begins. If
// the peer did not know all that was erased and now does, it is made once more.
func (r *remote) scoped(ctx context.Context, link transport.Link, of Of, do func(scope []byte) error) error {
	scope := peer.AppendScope(nil, r.pool.scope(of))
	err := do(scope[:len(scope):len(scope)])
	if err != nil && r.pool.catchUp(ctx, link, of, err) {
		err = do(scope[:len(scope):len(scope)])
	}
	return err
}
