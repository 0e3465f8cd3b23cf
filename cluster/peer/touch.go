package peer

// Touch makes blocks young again, root first. Its answer is empty.
type Touch struct {
	Scope Scope
	IDs   []ID
}

// AppendTouch encodes what follows the scope of a Touch.
func AppendTouch(b []byte, ids []ID) []byte { return appendIDs(b, ids) }

// ParseTouch decodes a Touch. Nothing of it refers to body.
func ParseTouch(body []byte) (m Touch, err error) {
	r := read(body)
	m.Scope = r.scope()
	m.IDs = r.ids()
	return m, r.Done()
}

// AppendRelease encodes a Release: the number of a lease that ends. It has no scope,
// and its answer is empty.
func AppendRelease(b []byte, lease uint64) []byte { return le.AppendUint64(b, lease) }

// ParseRelease decodes a Release.
func ParseRelease(body []byte) (lease uint64, err error) {
	r := read(body)
	lease = r.U64("lease")
	return lease, r.Done()
}

// ProbeBytesMax bounds the body of a Probe, which is any bytes; its answer is the same.
const ProbeBytesMax = 1 << 10

// ParseProbe checks a Probe.
func ParseProbe(body []byte) error {
	r := read(body)
	if len(body) > ProbeBytesMax {
		r.Fail("a probe of %d bytes", len(body))
	}
	return r.Err()
}
