package wire

import "encoding/binary"

// Hello is a client's first message.
type Hello struct {
	Lowest, Highest uint16 // versions it speaks
	// Instance and Connection are of the connection that this one follows, or 0.
	Instance   [16]byte
	Connection uint64
	Client     string // name and version, for logs
	Token      string // what the daemon wants to see; may be empty
}

// Append implements Message.
func (m *Hello) Append(b []byte) []byte {
	b = append(b, Magic...)
	b = binary.LittleEndian.AppendUint16(b, m.Lowest)
	b = binary.LittleEndian.AppendUint16(b, m.Highest)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, m.Instance[:]...)
	b = binary.LittleEndian.AppendUint64(b, m.Connection)
	return appendText(appendText(b, m.Client), m.Token)
}

// ParseHello decodes a Hello. Features that this version does not know are
// ignored: they are offers.
func ParseHello(body []byte) (m Hello, err error) {
	r := read(body)
	if string(r.Take(len(Magic), "magic")) != Magic {
		r.Fail("no magic: not a client of Spillway")
	}
	m.Lowest, m.Highest = r.U16("lowest version"), r.U16("highest version")
	r.U32("features")
	copy(m.Instance[:], r.Take(16, "instance"))
	m.Connection = r.U64("connection")
	m.Client, m.Token = r.text("client"), r.text("token")
	return m, r.Done()
}

// Limits are what a daemon allows one connection.
type Limits struct {
	FrameBytes    uint32 // body of a frame
	Keys          uint32 // of one request
	Pieces        uint32 // of one request, all keys together
	Requests      uint32 // in flight
	Regions       uint32
	RegionBytes   uint64 // all regions together
	AlignBytes    uint32 // places aligned so are moved without a copy
	PutQueueBytes uint64 // puts beyond are dropped
}

// Welcome answers Hello.
type Welcome struct {
	Version    uint16
	Instance   [16]byte // of the daemon's process
	Connection uint64   // its number within the instance, from 1
	Limits     Limits
	Server     string // name and version, for logs
}

// Append implements Message.
func (m *Welcome) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, m.Version)
	b = append(b, 0, 0, 0, 0, 0, 0)
	b = append(b, m.Instance[:]...)
	b = le.AppendUint64(b, m.Connection)
	for _, n := range []uint32{m.Limits.FrameBytes, m.Limits.Keys, m.Limits.Pieces, m.Limits.Requests, m.Limits.Regions, 0} {
		b = le.AppendUint32(b, n)
	}
	b = le.AppendUint64(b, m.Limits.RegionBytes)
	b = le.AppendUint32(b, m.Limits.AlignBytes)
	b = le.AppendUint64(b, m.Limits.PutQueueBytes)
	return appendText(b, m.Server)
}

// ParseWelcome decodes a Welcome.
func ParseWelcome(body []byte) (m Welcome, err error) {
	r := read(body)
	m.Version = r.U16("version")
	r.zeros(2, "reserved")
	r.U32("features")
	copy(m.Instance[:], r.Take(16, "instance"))
	m.Connection = r.U64("connection")
	for _, n := range []*uint32{&m.Limits.FrameBytes, &m.Limits.Keys, &m.Limits.Pieces, &m.Limits.Requests, &m.Limits.Regions} {
		*n = r.U32("limit")
	}
	r.zeros(4, "reserved")
	m.Limits.RegionBytes = r.U64("region bytes")
	m.Limits.AlignBytes = r.U32("align bytes")
	m.Limits.PutQueueBytes = r.U64("put queue bytes")
	m.Server = r.text("server")
	return m, r.Done()
}

// ErrorAnswer answers a request that is wrong or cannot be served as a whole.
type ErrorAnswer struct {
	Code   Code
	Text   string // what happened, to what
	Remedy string // what to do; may be empty
}

// Append implements Message.
func (m *ErrorAnswer) Append(b []byte) []byte {
	return appendText(appendText(binary.LittleEndian.AppendUint16(b, uint16(m.Code)), m.Text), m.Remedy)
}

// ParseError decodes an ErrorAnswer.
func ParseError(body []byte) (m ErrorAnswer, err error) {
	r := read(body)
	m.Code = Code(r.U16("code"))
	m.Text, m.Remedy = r.text("text"), r.text("remedy")
	return m, r.Done()
}

// Error makes an ErrorAnswer an error.
func (m *ErrorAnswer) Error() string {
	s := m.Code.String() + ": " + m.Text
	if m.Remedy != "" {
		s += "; " + m.Remedy
	}
	return s
}
