package rdma

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/spillway-kv/spillway/cluster/transport"
	"github.com/spillway-kv/spillway/cluster/wire/fields"
)

// Kinds of the control's calls that are this package's own; docs/format/rdma.md has them.
const (
	kindOpen  transport.Kind = 0xf0
	kindFetch transport.Kind = 0xf2
	kindHold                 = transport.KindUrgent // it lasts, and must not take the place of others
	kindFence                = transport.KindUrgent + 1
)

// Bounds of messages.
const (
	messageVersion = 1
	railsMax       = 8
	linesMin       = 16
	linesMax       = 1 << lineBits
	blocksMax      = 4096
	blockBytesMax  = 64 << 20
	fencesMax      = 4096
)

// errMalformed says that a message breaks the protocol.
var errMalformed = errors.New("malformed message between nodes with RDMA")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errMalformed}, args...)...)
}

// fenceRequest asks for the server's word that of some requests nothing more is posted, and
// for marks behind all that was. The word has no bytes.
type fenceRequest struct {
	session  uint64
	oldest   uint64 // the lowest request that the caller waits for or fences; lower ones never come
	mark     uint16 // below marksMax
	rails    uint8  // a bit for each rail on which a mark is to come
	requests []uint64
}

func (m *fenceRequest) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, m.session)
	b = binary.LittleEndian.AppendUint64(b, m.oldest)
	b = binary.LittleEndian.AppendUint16(b, m.mark)
	b = append(b, m.rails, 0, 0, 0, 0, 0)
	for _, n := range m.requests {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func parseFence(body []byte) (fenceRequest, error) {
	r := fields.New(body, errMalformed)
	m := fenceRequest{session: r.U64("session"), oldest: r.U64("oldest request"), mark: r.U16("mark"), rails: r.U8("rails")}
	zeros(&r, 5)
	if m.mark >= marksMax {
		r.Fail("mark %d, want less than %d", m.mark, marksMax)
	}
	n := len(r.Rest()) / 8
	if n > fencesMax {
		r.Fail("%d requests in a fence, at most %d are allowed", n, fencesMax)
		return fenceRequest{}, r.Err()
	}
	m.requests = make([]uint64, n)
	for i := range m.requests {
		if m.requests[i] = r.U64("request"); m.requests[i] == 0 {
			r.Fail("request 0 in a fence")
		}
	}
	if err := r.Done(); err != nil {
		return fenceRequest{}, err
	}
	return m, nil
}

// appendHold makes the body of a hold.
func appendHold(b []byte, session uint64) []byte { return binary.LittleEndian.AppendUint64(b, session) }

func parseHold(body []byte) (session uint64, err error) {
	r := fields.New(body, errMalformed)
	session = r.U64("session")
	return session, r.Done()
}

// zeros takes bytes that later versions may use.
func zeros(r *fields.Reader, n int) {
	for _, c := range r.Take(n, "bytes that are zero") {
		if c != 0 {
			r.Fail("a byte that is to be zero is %d", c)
		}
	}
}
