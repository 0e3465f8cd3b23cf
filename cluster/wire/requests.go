package wire

import "encoding/binary"

var le = binary.LittleEndian

// OpenNamespace asks for the namespace of a descriptor.
type OpenNamespace struct {
	Descriptor []byte // JSON
	Token      string // what this namespace wants to see; may be empty
}

// Append implements Message.
func (m *OpenNamespace) Append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(len(m.Descriptor)))
	return appendText(append(b, m.Descriptor...), m.Token)
}

// ParseOpenNamespace decodes an OpenNamespace; the descriptor refers to body.
func ParseOpenNamespace(body []byte) (m OpenNamespace, err error) {
	r := read(body)
	m.Descriptor = r.Take(int(r.U32("descriptor bytes")), "descriptor")
	m.Token = r.text("token")
	return m, r.Done()
}

// NamespaceOpened answers OpenNamespace.
type NamespaceOpened struct {
	Namespace  uint32 // its number on this connection
	BlockBytes uint32
	ID         [32]byte
	Name       string
}

// Append implements Message.
func (m *NamespaceOpened) Append(b []byte) []byte {
	b = le.AppendUint32(le.AppendUint32(b, m.Namespace), m.BlockBytes)
	return appendText(append(b, m.ID[:]...), m.Name)
}

// ParseNamespaceOpened decodes a NamespaceOpened.
func ParseNamespaceOpened(body []byte) (m NamespaceOpened, err error) {
	r := read(body)
	m.Namespace, m.BlockBytes = r.U32("namespace"), r.U32("block bytes")
	copy(m.ID[:], r.Take(32, "namespace ID"))
	m.Name = r.text("name")
	return m, r.Done()
}

// RegisterRegion hands a file to the daemon; its descriptor comes with the frame.
type RegisterRegion struct {
	Flags       uint32
	LengthBytes uint64
}

// Append implements Message.
func (m *RegisterRegion) Append(b []byte) []byte {
	return le.AppendUint64(le.AppendUint32(b, m.Flags), m.LengthBytes)
}

// ParseRegisterRegion decodes a RegisterRegion.
func ParseRegisterRegion(body []byte) (m RegisterRegion, err error) {
	r := read(body)
	m.Flags, m.LengthBytes = r.U32("flags"), r.U64("length")
	return m, r.Done()
}

// CreateRegion asks the daemon for memory; so is it answered, with a region in
// place of the namespace, and a descriptor.
type CreateRegion struct {
	Number      uint32 // namespace; in the answer, region
	LengthBytes uint64
}

// Append implements Message.
func (m *CreateRegion) Append(b []byte) []byte {
	return le.AppendUint64(le.AppendUint32(le.AppendUint32(b, m.Number), 0), m.LengthBytes)
}

// ParseCreateRegion decodes a CreateRegion or its answer.
func ParseCreateRegion(body []byte) (m CreateRegion, err error) {
	r := read(body)
	m.Number = r.U32("number")
	r.zeros(4, "reserved")
	m.LengthBytes = r.U64("length")
	return m, r.Done()
}

// Number is a body of one 32-bit number: a region, a namespace, a count.
type Number uint32

// Append implements Message.
func (m Number) Append(b []byte) []byte { return le.AppendUint32(b, uint32(m)) }

// ParseNumber decodes a Number.
func ParseNumber(body []byte) (Number, error) {
	r := read(body)
	n := r.U32("number")
	return Number(n), r.Done()
}

// Wide is a body of one 64-bit number: a lease, a request.
type Wide uint64

// Append implements Message.
func (m Wide) Append(b []byte) []byte { return le.AppendUint64(b, uint64(m)) }

// ParseWide decodes a Wide.
func ParseWide(body []byte) (Wide, error) {
	r := read(body)
	n := r.U64("number")
	return Wide(n), r.Done()
}

// Raw is a body of any bytes.
type Raw []byte

// Append implements Message.
func (m Raw) Append(b []byte) []byte { return append(b, m...) }

// KeyList names blocks: Touch, Delete, Locate, and with flags Prefetch.
type KeyList struct {
	Namespace, Group uint32
	Keys             Keys
}

// Append implements Message.
func (m *KeyList) Append(b []byte) []byte {
	return m.Keys.append(le.AppendUint32(le.AppendUint32(b, m.Namespace), m.Group))
}

// ParseKeyList decodes a KeyList; the keys refer to body.
func ParseKeyList(body []byte) (m KeyList, err error) {
	r := read(body)
	m.Namespace, m.Group = r.U32("namespace"), r.U32("group")
	m.Keys = r.keys()
	return m, r.Done()
}

// Match asks which blocks are here.
type Match struct {
	Namespace, Group uint32
	ComputeUS        uint32 // time to compute one block: what loads no quicker is absent; 0: say what is here, ComputeKnown: as the daemon knows it
	LeaseMS          uint32 // 0: no lease
	Trailing         uint32
	Keys             Keys
}

// Append implements Message.
func (m *Match) Append(b []byte) []byte {
	for _, n := range []uint32{m.Namespace, m.Group, m.ComputeUS, m.LeaseMS, m.Trailing} {
		b = le.AppendUint32(b, n)
	}
	return m.Keys.append(b)
}

// ParseMatch decodes a Match; the keys refer to body.
func ParseMatch(body []byte) (m Match, err error) {
	r := read(body)
	m.Namespace, m.Group = r.U32("namespace"), r.U32("group")
	m.ComputeUS = r.U32("compute time")
	m.LeaseMS, m.Trailing = r.U32("lease"), r.U32("trailing")
	m.Keys = r.keys()
	return m, r.Done()
}

// MatchAnswer answers Match. Bit i%8 of Bitmap[i/8] stands for key i.
type MatchAnswer struct {
	Keys, Prefix, Trailing, Leased uint32
	Lease                          uint64
	Bitmap                         []byte
}

// Append implements Message.
func (m *MatchAnswer) Append(b []byte) []byte {
	for _, n := range []uint32{m.Keys, m.Prefix, m.Trailing, m.Leased} {
		b = le.AppendUint32(b, n)
	}
	return append(le.AppendUint64(b, m.Lease), m.Bitmap...)
}

// ParseMatchAnswer decodes a MatchAnswer; the bitmap refers to body.
func ParseMatchAnswer(body []byte) (m MatchAnswer, err error) {
	r := read(body)
	for _, n := range []*uint32{&m.Keys, &m.Prefix, &m.Trailing, &m.Leased} {
		*n = r.U32("count")
	}
	m.Lease = r.U64("lease")
	m.Bitmap = r.Take((int(m.Keys)+7)/8, "bitmap")
	return m, r.Done()
}
