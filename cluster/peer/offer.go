package peer

// Flags of an Offer.
const (
	OfferNoTouch  = 1 << 0 // blocks that are there do not become younger
	offerFlagsAll = OfferNoTouch
)

// Offer says which blocks the caller would push: the peer answers which of them it wants,
// and has the others.
type Offer struct {
	Scope Scope
	Flags uint32
	IDs   []ID
}

// AppendOffer encodes what follows the scope of an Offer.
func AppendOffer(b []byte, flags uint32, ids []ID) []byte {
	return appendIDs(le.AppendUint32(b, flags), ids)
}

// ParseOffer decodes an Offer. Nothing of it refers to body.
func ParseOffer(body []byte) (m Offer, err error) {
	r := read(body)
	m.Scope = r.scope()
	if m.Flags = r.U32("flags"); m.Flags&^offerFlagsAll != 0 {
		r.Fail("unknown flags %#x", m.Flags)
	}
	m.IDs = r.ids()
	return m, r.Done()
}

// AppendWanted encodes the answer to an Offer: for each ID, whether the block is wanted.
func AppendWanted(b []byte, wanted []bool) []byte {
	b = le.AppendUint32(b, uint32(len(wanted)))
	from := len(b)
	b = append(b, make([]byte, (len(wanted)+7)/8)...)
	for i, yes := range wanted {
		if yes {
			b[from+i/8] |= 1 << (i % 8)
		}
	}
	return b
}

// ParseWanted decodes the answer to an Offer of so many IDs.
func ParseWanted(body []byte, ids int) (wanted []bool, err error) {
	r := read(body)
	if n := r.U32("IDs"); r.Err() == nil && int64(n) != int64(ids) {
		r.Fail("an answer for %d IDs, %d were offered", n, ids)
	}
	bitmap := r.Take((ids+7)/8, "bitmap")
	if n := ids % 8; r.Err() == nil && n > 0 && bitmap[len(bitmap)-1]>>n != 0 {
		r.Fail("bits behind the last ID")
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	wanted = make([]bool, ids)
	for i := range wanted {
		wanted[i] = bitmap[i/8]>>(i%8)&1 != 0
	}
	return wanted, nil
}
