package peer

// Match asks which blocks are here, and for a promise that they stay.
type Match struct {
	Scope   Scope
	LeaseMS uint32 // 0: no lease
	IDs     []ID
}

// AppendMatch encodes what follows the scope of a Match.
func AppendMatch(b []byte, leaseMS uint32, ids []ID) []byte {
	return appendIDs(le.AppendUint32(b, leaseMS), ids)
}

// ParseMatch decodes a Match. Nothing of it refers to body.
func ParseMatch(body []byte) (m Match, err error) {
	r := read(body)
	m.Scope = r.scope()
	m.LeaseMS = r.U32("lease")
	m.IDs = r.ids()
	return m, r.Done()
}

// Matched answers a Match: bit i%8 of Bitmap[i/8] stands for ID i of so many.
type Matched struct {
	IDs    int
	Leased uint32 // of what is here, how much is under the lease
	Lease  uint64 // to release; 0: none
	Bitmap []byte
}

// Append encodes m.
func (m *Matched) Append(b []byte) []byte {
	b = le.AppendUint32(le.AppendUint32(b, uint32(m.IDs)), m.Leased)
	return append(le.AppendUint64(b, m.Lease), m.Bitmap...)
}

// Has reports whether ID i is here.
func (m *Matched) Has(i int) bool { return m.Bitmap[i/8]>>(i%8)&1 != 0 }

// ParseMatched decodes the answer to a Match of so many IDs; the bitmap refers to body.
func ParseMatched(body []byte, ids int) (m Matched, err error) {
	r := read(body)
	m.IDs = int(r.U32("IDs"))
	m.Leased = r.U32("leased")
	m.Lease = r.U64("lease")
	if r.Err() == nil && m.IDs != ids {
		r.Fail("an answer for %d IDs, %d were asked for", m.IDs, ids)
	}
	m.Bitmap = r.Take((ids+7)/8, "bitmap")
	if n := ids % 8; r.Err() == nil && n > 0 && m.Bitmap[len(m.Bitmap)-1]>>n != 0 {
		r.Fail("bits behind the last ID")
	}
	if err = r.Done(); err != nil {
		return Matched{}, err
	}
	return m, nil
}
