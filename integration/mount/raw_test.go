package mount

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/wire"
)

// raw is a client that does as it likes.
type raw struct {
	t      testing.TB
	socket *net.UnixConn
	last   uint64
	ns     uint32
}

// rawDial connects without a word.
func (r *rig) rawDial() *raw {
	r.t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: r.socket, Net: "unix"})
	must(r.t, err)
	must(r.t, c.SetDeadline(time.Now().Add(time.Minute)))
	r.t.Cleanup(func() { _ = c.Close() })
	return &raw{t: r.t, socket: c}
}

// rawMount is rawDial with a namespace and a region of rows.
func (r *rig) rawMount(name string, rows int) (*raw, uint32, memory) {
	r.t.Helper()
	w := r.rawDial()
	w.hello()
	w.open(name)
	region, mem := w.region(rows * blockBytes)
	return w, region, mem
}

func (w *raw) send(t wire.Type, m wire.Message, oob []byte) uint64 {
	w.t.Helper()
	w.last++
	frame := wire.AppendFrame(nil, t, w.last, m)
	_, _, err := w.socket.WriteMsgUnix(frame, oob, nil)
	must(w.t, err)
	return w.last
}

// next reads one frame.
func (w *raw) next() (h wire.Header, body []byte, err error) {
	header := make([]byte, wire.HeaderBytes)
	if _, err := io.ReadFull(w.socket, header); err != nil {
		return h, nil, err
	}
	if h, err = wire.ParseHeader(header, wire.FrameBytesMax); err != nil {
		return h, nil, err
	}
	body = make([]byte, h.BodyBytes)
	_, err = io.ReadFull(w.socket, body)
	return h, body, err
}

// want reads the answer to the newest request.
func (w *raw) want(t wire.Type) []byte {
	w.t.Helper()
	h, body, err := w.next()
	if err != nil || h.Type != t || h.Request != w.last {
		if h.Type == wire.TypeError {
			e, _ := wire.ParseError(body)
			w.t.Fatalf("request %d: %v", h.Request, &e)
		}
		w.t.Fatalf("frame %+v, %v, want type %#x for request %d", h, err, t, w.last)
	}
	return body
}

func (w *raw) ask(t wire.Type, m wire.Message, oob []byte) []byte {
	w.t.Helper()
	w.send(t, m, oob)
	return w.want(t | wire.Answer)
}

func (w *raw) hello() {
	w.t.Helper()
	w.ask(wire.TypeHello, &wire.Hello{Lowest: 1, Highest: 1, Client: "raw"}, nil)
}

func (w *raw) open(name string) {
	w.t.Helper()
	d, err := json.Marshal(descriptor(name))
	must(w.t, err)
	m, err := wire.ParseNamespaceOpened(w.ask(wire.TypeOpenNamespace, &wire.OpenNamespace{Descriptor: d}, nil))
	must(w.t, err)
	w.ns = m.Namespace
}

// memory is a memfd that its owner can shrink and punch.
type memory struct {
	fd  int
	mem []byte
}

func newMemory(t testing.TB, nBytes int) memory {
	t.Helper()
	fd, err := unix.MemfdCreate("hostile", unix.MFD_CLOEXEC)
	must(t, err)
	must(t, unix.Ftruncate(fd, int64(nBytes)))
	mem, err := unix.Mmap(fd, 0, nBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(unix.Munmap(mem), unix.Close(fd))) })
	return memory{fd, mem}
}

func (m memory) cut(t testing.TB, nBytes int) { must(t, unix.Ftruncate(m.fd, int64(nBytes))) }

func (m memory) punch(t testing.TB) {
	must(t, unix.Fallocate(m.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(m.mem))))
}

func (w *raw) region(nBytes int) (uint32, memory) {
	w.t.Helper()
	m := newMemory(w.t, nBytes)
	n, err := wire.ParseNumber(w.ask(wire.TypeRegisterRegion, &wire.RegisterRegion{LengthBytes: uint64(nBytes)}, unix.UnixRights(m.fd)))
	must(w.t, err)
	return uint32(n), m
}

// places are rows 0..n-1 of a region.
func places(region uint32, n int) wire.Places {
	pieces := make([]wire.Piece, n)
	for i := range pieces {
		pieces[i] = wire.Piece{Region: region, LengthBytes: blockBytes, Offset: uint64(i * blockBytes)}
	}
	return wire.MakePlaces(1, pieces)
}

func (w *raw) get(region uint32, from, n int) *wire.Get {
	return &wire.Get{Namespace: w.ns, Keys: wire.MakeKeys(keys(from, n)), Places: places(region, n)}
}

func (w *raw) put(region uint32, from, n int) *wire.Put {
	return &wire.Put{Namespace: w.ns, Keys: wire.MakeKeys(keys(from, n)), Places: places(region, n)}
}

// results reads the answer to a Get or Put.
func (w *raw) results(t wire.Type) wire.Results {
	w.t.Helper()
	m, err := wire.ParseResults(w.want(t | wire.Answer))
	must(w.t, err)
	return m
}
