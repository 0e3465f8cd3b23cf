package wire

// Subscribe asks for events, or answers with what there is of them.
type Subscribe struct {
	Namespace uint32 // 0: all that this connection has opened
	From      uint64 // the first sequence wanted; 0: from now on
}

// Append implements Message.
func (m *Subscribe) Append(b []byte) []byte {
	return le.AppendUint64(le.AppendUint32(le.AppendUint32(b, m.Namespace), 0), m.From)
}

// ParseSubscribe decodes a Subscribe.
func ParseSubscribe(body []byte) (m Subscribe, err error) {
	r := read(body)
	m.Namespace = r.U32("namespace")
	r.zeros(4, "reserved")
	m.From = r.U64("from")
	return m, r.Done()
}

// Subscribed answers Subscribe.
type Subscribed struct {
	Oldest uint64 // sequence of the oldest event that is kept
	Next   uint64 // sequence of the next event
}

// Append implements Message.
func (m *Subscribed) Append(b []byte) []byte {
	return le.AppendUint64(le.AppendUint64(b, m.Oldest), m.Next)
}

// ParseSubscribed decodes a Subscribed.
func ParseSubscribed(body []byte) (m Subscribed, err error) {
	r := read(body)
	m.Oldest, m.Next = r.U64("oldest"), r.U64("next")
	return m, r.Done()
}

// Event is something that happened to blocks.
type Event struct {
	Sequence         uint64
	Kind             uint8
	Namespace, Group uint32
	Keys             Keys
}

// Append implements Message.
func (m *Event) Append(b []byte) []byte {
	b = append(le.AppendUint64(b, m.Sequence), m.Kind, 0, 0, 0)
	return m.Keys.append(le.AppendUint32(le.AppendUint32(b, m.Namespace), m.Group))
}

// ParseEvent decodes an Event; the keys refer to body.
func ParseEvent(body []byte) (m Event, err error) {
	r := read(body)
	m.Sequence, m.Kind = r.U64("sequence"), r.U8("kind")
	r.zeros(3, "reserved")
	m.Namespace, m.Group = r.U32("namespace"), r.U32("group")
	m.Keys = r.keys()
	return m, r.Done()
}
