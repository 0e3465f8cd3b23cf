package peer

// Flags of a Get.
const (
	GetNoTouch  = 1 << 0 // the blocks do not become younger
	getFlagsAll = GetNoTouch
)

// Get asks for blocks. Their bytes come as the blocks of a Fetch, in the order of IDs;
// the answer beside them is empty.
type Get struct {
	Scope Scope
	Flags uint32
	IDs   []ID
}

// AppendGet encodes what follows the scope of a Get.
func AppendGet(b []byte, flags uint32, ids []ID) []byte {
	return appendIDs(le.AppendUint32(b, flags), ids)
}

// ParseGet decodes a Get. Nothing of it refers to body.
func ParseGet(body []byte) (m Get, err error) {
	r := read(body)
	m.Scope = r.scope()
	if m.Flags = r.U32("flags"); m.Flags&^getFlagsAll != 0 {
		r.Fail("unknown flags %#x", m.Flags)
	}
	m.IDs = r.ids()
	return m, r.Done()
}
