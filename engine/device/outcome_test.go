package device

import (
	"errors"
	"io"
	"syscall"
	"testing"
)

// TestOutcome: what each result of a request means, for results that a kernel
// rarely gives.
func TestOutcome(t *testing.T) {
	d := openInternal(t)
	align := d.facts.OffsetAlignBytes
	f := createInternal(t, d, int64(8*align))
	buf := AlignedBuffer(8*align, align)
	for _, c := range []struct {
		what    string
		kind    Kind
		results []int // of one request after the other
		last    outcome
		n       int
		err     error
	}{
		{"all at once", Read, []int{8 * align}, whole, 8 * align, nil},
		{"in three parts", Write, []int{align, 3 * align, 4 * align}, whole, 8 * align, nil},
		{"a part is missing", Read, []int{align}, partial, align, nil},
		{"EIO later", Read, []int{align, -int(syscall.EIO)}, whole, align, syscall.EIO},
		{"disk full", Write, []int{-int(syscall.ENOSPC)}, whole, 0, syscall.ENOSPC},
		{"end of file at a block", Read, []int{2 * align, 0}, whole, 2 * align, io.ErrUnexpectedEOF},
		{"a read stops within a block, not at the end", Read, []int{align + 7}, whole, align + 7, syscall.EIO},
		{"a write stops within a block", Write, []int{align + 7}, whole, align + 7, syscall.EIO},
		{"a write moves nothing", Write, []int{align, 0}, whole, align, io.ErrShortWrite},
		{"interrupted", Read, []int{-int(syscall.EINTR)}, refused, 0, nil},
		{"try again", Read, []int{align, -int(syscall.EAGAIN)}, refused, align, nil},
		{"canceled", Sync, []int{-int(syscall.ECANCELED)}, refused, 0, nil},
		{"sync", Sync, []int{0}, whole, 0, nil},
		{"failed sync", Sync, []int{-int(syscall.EIO)}, whole, 0, syscall.EIO},
		{"punch", Punch, []int{0}, whole, 0, nil},
	} {
		r := &ring{bytesMax: callBytesMax}
		op := &Op{Kind: c.kind, File: f, Bufs: [][]byte{buf[:align], nil, buf[align : 3*align], buf[3*align:]}}
		fl := &flight{op: op, file: f, at: cursor{bufs: op.Bufs}}
		got := whole
		for i, result := range c.results {
			if i > 0 && got != partial {
				t.Errorf("%s: result %d ended it", c.what, i)
			}
			request := r.request(fl)
			if c.kind == Read && request.Offset != uint64(fl.n) {
				t.Errorf("%s: request %d at %d, want %d", c.what, i, request.Offset, fl.n)
			}
			got = r.outcome(fl, result)
		}
		if got != c.last || op.N != c.n || !errors.Is(op.Err, c.err) {
			t.Errorf("%s: outcome %d, N = %d, %v; want %d, %d, %v", c.what, got, op.N, op.Err, c.last, c.n, c.err)
		}
	}
}
