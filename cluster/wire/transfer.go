package wire

// Get asks for blocks.
type Get struct {
	Namespace, Group uint32
	Flags            uint32
	DeadlineUS       uint32 // from its arrival; 0: none
	Keys             Keys
	Places           Places
}

// Append implements Message.
func (m *Get) Append(b []byte) []byte {
	for _, n := range []uint32{m.Namespace, m.Group, m.Flags, m.DeadlineUS} {
		b = le.AppendUint32(b, n)
	}
	return m.Places.append(m.Keys.append(b))
}

// ParseGet decodes a Get; keys and places refer to body.
func ParseGet(body []byte) (m Get, err error) {
	r := read(body)
	for _, n := range []*uint32{&m.Namespace, &m.Group, &m.Flags, &m.DeadlineUS} {
		*n = r.U32("field")
	}
	m.Keys = r.keys()
	m.Places = r.places(m.Keys.Len())
	return m, r.Done()
}

// Put brings blocks.
type Put struct {
	Namespace, Group uint32
	Flags            uint32
	DeadlineUS       uint32 // from its arrival; 0: none
	Depth            uint32 // of the first key in its chain; the others follow
	Importance       uint8
	After            []byte // the key before the first one in its chain, put earlier; empty: none
	Keys             Keys
	Places           Places
}

// Append implements Message.
func (m *Put) Append(b []byte) []byte {
	for _, n := range []uint32{m.Namespace, m.Group, m.Flags, m.DeadlineUS, m.Depth} {
		b = le.AppendUint32(b, n)
	}
	b = le.AppendUint16(append(b, m.Importance, 0), uint16(len(m.After)))
	return m.Places.append(m.Keys.append(append(b, m.After...)))
}

// ParsePut decodes a Put; its keys and places refer to body.
func ParsePut(body []byte) (m Put, err error) {
	r := read(body)
	for _, n := range []*uint32{&m.Namespace, &m.Group, &m.Flags, &m.DeadlineUS, &m.Depth} {
		*n = r.U32("field")
	}
	m.Importance = r.U8("importance")
	r.zeros(1, "reserved")
	if n := int(r.U16("length of the key before")); n > KeyBytesMax {
		r.Fail("a key before of %d bytes", n)
	} else {
		m.After = r.Take(n, "key before")
	}
	m.Keys = r.keys()
	m.Places = r.places(m.Keys.Len())
	return m, r.Done()
}

// Results answer Get and Put.
type Results struct {
	Prefix   uint32 // leading keys that are HIT; of a Put, STORED or PRESENT
	TimeUS   uint32
	Statuses []byte // a Status each
	Reasons  []byte // a Reason each; empty where no block of a Put has one
}

// Append implements Message.
func (m *Results) Append(b []byte) []byte {
	for _, n := range []uint32{m.Prefix, m.TimeUS, uint32(len(m.Statuses))} {
		b = le.AppendUint32(b, n)
	}
	return append(append(b, m.Statuses...), m.Reasons...)
}

// ParseResults decodes Results; statuses and reasons refer to body.
func ParseResults(body []byte) (m Results, err error) {
	r := read(body)
	m.Prefix, m.TimeUS = r.U32("prefix"), r.U32("time")
	m.Statuses = r.Take(int(r.U32("number of statuses")), "statuses")
	if len(r.Rest()) > 0 {
		m.Reasons = r.Take(len(m.Statuses), "reasons")
	}
	return m, r.Done()
}

// Released names items that were LATE and whose memory is the client's again.
type Released []uint32

// Append implements Message.
func (m Released) Append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(len(m)))
	for _, item := range m {
		b = le.AppendUint32(b, item)
	}
	return b
}

// ParseReleased decodes a Released.
func ParseReleased(body []byte) (m Released, err error) {
	r := read(body)
	raw := r.Take(4*int(r.U32("number of items")), "items")
	for ; len(raw) > 0; raw = raw[4:] {
		m = append(m, le.Uint32(raw))
	}
	return m, r.Done()
}
