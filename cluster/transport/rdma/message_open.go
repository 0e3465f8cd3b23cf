package rdma

import (
	"encoding/binary"
	"net/netip"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cluster/wire/fields"
)

// openRequest asks for a session.
type openRequest struct {
	lines int // of the result table of each rail
	rails []callerRail
}

// callerRail is one queue pair of the caller, and the result table that belongs to it.
type callerRail struct {
	end      endpoint
	table    uint64 // address
	tableKey uint32
}

// openAnswer says what the server has made of it.
type openAnswer struct {
	session  uint64
	inFlight uint64     // bytes of blocks that the caller may have asked for at once
	rails    []endpoint // as asked; one of no number: there is no port for it
}

// endpoint is a fabric's, and the network that its port is in.
type endpoint struct {
	fabric.Endpoint
	prefixBits int // of the GID's 128: they are the network; 0: unknown
}

// near reports whether an address is in the network of e.
func (e *endpoint) near(gid netip.Addr) bool {
	if e.prefixBits == 0 || !e.GID.IsValid() || !gid.IsValid() {
		return false
	}
	return netip.PrefixFrom(wide(e.GID), e.prefixBits).Masked().Contains(wide(gid))
}

// wide is a GID in 128 bits; one that is a mapped IPv4 address counts as IPv6 here.
func wide(gid netip.Addr) netip.Addr { return netip.AddrFrom16(gid.As16()) }

// prefixOf is the length of the network's prefix that a port is in, in bits of its GID's
// 128; 0: none is known.
func prefixOf(gid fabric.GID) int {
	if gid.Type == fabric.InfiniBand {
		return 64 // the subnet's
	}
	most := 0
	for _, n := range gid.Networks {
		bits := n.Bits()
		if n.Addr().Is4() {
			bits += 96
		}
		if n.Contains(gid.Address) || n.Contains(gid.Address.Unmap()) {
			most = max(most, bits)
		}
	}
	return most
}

const endpointBytes = 48

func (e *endpoint) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, e.Number)
	b = binary.LittleEndian.AppendUint32(b, e.Packet)
	gid := [16]byte{}
	if e.GID.IsValid() {
		gid = e.GID.As16()
	}
	b = append(b, gid[:]...)
	b = binary.LittleEndian.AppendUint16(b, e.LID)
	b = binary.LittleEndian.AppendUint16(b, uint16(e.MTUBytes))
	ethernet := byte(0)
	if e.Ethernet {
		ethernet = 1
	}
	b = append(b, ethernet, uint8(e.prefixBits))
	return append(b, make([]byte, 18)...)
}

// takeEndpoint reads an endpoint; one of zeros only if none may be.
func takeEndpoint(r *fields.Reader, none bool) (e endpoint) {
	b := r.Take(endpointBytes, "endpoint")
	if b == nil || none && [endpointBytes]byte(b) == [endpointBytes]byte{} {
		return endpoint{}
	}
	f := fields.New(b, errMalformed)
	e.Number, e.Packet = f.U32("queue pair"), f.U32("packet")
	e.GID = netip.AddrFrom16([16]byte(f.Take(16, "GID")))
	e.LID, e.MTUBytes = f.U16("LID"), int(f.U16("MTU"))
	ethernet := f.U8("kind of link")
	e.Ethernet = ethernet == 1
	e.prefixBits = int(f.U8("prefix"))
	zeros(&f, 18)
	switch {
	case f.Done() != nil:
		r.Fail("%v", f.Err())
	case e.Number == 0 || e.Number >= 1<<24 || e.Packet >= 1<<24:
		r.Fail("queue pair %#x, packet %#x: want 24 bits, the first not 0", e.Number, e.Packet)
	case e.MTUBytes < 256 || e.MTUBytes > 4096 || e.MTUBytes&(e.MTUBytes-1) != 0:
		r.Fail("MTU of %d bytes", e.MTUBytes)
	case ethernet > 1 || e.prefixBits > 128:
		r.Fail("kind of link %d, prefix of %d bits", ethernet, e.prefixBits)
	}
	return e
}

func (m *openRequest) append(b []byte) []byte {
	b = append(b, messageVersion, uint8(len(m.rails)), 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.lines))
	for i := range m.rails {
		rail := &m.rails[i]
		b = rail.end.append(b)
		b = binary.LittleEndian.AppendUint64(b, rail.table)
		b = binary.LittleEndian.AppendUint32(b, rail.tableKey)
		b = append(b, 0, 0, 0, 0)
	}
	return b
}

func parseOpen(body []byte) (openRequest, error) {
	r := fields.New(body, errMalformed)
	rails := takeHead(&r)
	zeros(&r, 2)
	lines := r.U32("lines")
	if lines < linesMin || lines > linesMax {
		r.Fail("%d lines in a result table, want %d to %d", lines, linesMin, linesMax)
	}
	m := openRequest{lines: int(lines), rails: make([]callerRail, rails)}
	for i := range m.rails {
		rail := &m.rails[i]
		rail.end = takeEndpoint(&r, false)
		rail.table, rail.tableKey = r.U64("address of a table"), r.U32("key of a table")
		zeros(&r, 4)
		if tableBytes := uint64(lines) * recordBytes; rail.table+tableBytes < tableBytes {
			r.Fail("a table of %d lines at %#x", lines, rail.table)
		}
	}
	if err := r.Done(); err != nil {
		return openRequest{}, err
	}
	return m, nil
}

// takeHead reads the version and the number of rails.
func takeHead(r *fields.Reader) (rails uint8) {
	if v := r.U8("version"); v != messageVersion {
		r.Fail("version %d, want %d", v, messageVersion)
	}
	if rails = r.U8("rails"); rails == 0 || rails > railsMax {
		r.Fail("%d rails, want 1 to %d", rails, railsMax)
		return 0
	}
	return rails
}

func (m *openAnswer) append(b []byte) []byte {
	b = append(b, messageVersion, uint8(len(m.rails)), 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, m.session)
	b = binary.LittleEndian.AppendUint64(b, m.inFlight)
	for i := range m.rails {
		if m.rails[i].Number == 0 {
			b = append(b, make([]byte, endpointBytes)...)
			continue
		}
		b = m.rails[i].append(b)
	}
	return b
}

// parseOpened takes the answer to an open with so many rails apart.
func parseOpened(answer []byte, rails int) (openAnswer, error) {
	r := fields.New(answer, errMalformed)
	if n := takeHead(&r); int(n) != rails && r.Err() == nil {
		r.Fail("%d rails, %d were asked for", n, rails)
	}
	zeros(&r, 6)
	m := openAnswer{session: r.U64("session"), inFlight: r.U64("bytes in flight")}
	if m.session == 0 || m.inFlight == 0 {
		r.Fail("session %#x, %d bytes in flight", m.session, m.inFlight)
	}
	for range rails {
		m.rails = append(m.rails, takeEndpoint(&r, true))
	}
	if err := r.Done(); err != nil {
		return openAnswer{}, err
	}
	return m, nil
}
