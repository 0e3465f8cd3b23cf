package member

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/memberlist"
)

// What a node says of itself in gossip, as docs/format/gossip.md lays it out.

// Bounds. Their sum stays below what the gossip library takes: beyond it, it panics.
const (
	NameBytesMax    = 64 // of a node's name
	PoolIDBytesMax  = 64
	AddressBytesMax = 255 // of a data address, as host:port
	ZoneBytesMax    = 32
	KeysMax         = 8 // gossip keys of a node

	metadataVersion    = 1
	metadataFixedBytes = 44
	fingerprintBytes   = 8
	metadataBytesMax   = metadataFixedBytes + 4 + PoolIDBytesMax + AddressBytesMax + ZoneBytesMax + KeysMax*fingerprintBytes
)

// The longest metadata fits: otherwise this does not compile.
const _ = uint(memberlist.MetaMaxSize - metadataBytesMax)

// errMetadata says that metadata breaks the format.
var errMetadata = errors.New("malformed metadata")

// metadata is a decoded one. The name is not in it: the gossip library carries that.
type metadata struct {
	poolID string
	member Member        // without Name, Suspect, Self
	keys   []fingerprint // those that the node decrypts with, the first encrypts
}

// appendMetadata encodes m, whose fields were checked against their bounds before.
func appendMetadata(b []byte, m *metadata) []byte {
	b = append(b, metadataVersion, byte(m.member.State), m.member.ProtocolLow, m.member.ProtocolHigh)
	b = append(b, m.member.ID[:]...)
	b = binary.LittleEndian.AppendUint64(b, m.member.Start)
	b = binary.LittleEndian.AppendUint64(b, uint64(max(m.member.CapacityBytes, 0)))
	b = binary.LittleEndian.AppendUint64(b, uint64(max(m.member.FreeBytes, 0)))
	for _, s := range []string{m.poolID, m.member.Address, m.member.Zone} {
		b = append(append(b, byte(len(s))), s...)
	}
	b = append(b, byte(len(m.keys)))
	for _, k := range m.keys {
		b = append(b, k[:]...)
	}
	return b
}

// decodeMetadata reads what appendMetadata wrote, or a later version appended to.
func decodeMetadata(b []byte) (m metadata, err error) {
	if len(b) < metadataFixedBytes {
		return m, fmt.Errorf("%w: %d bytes", errMetadata, len(b))
	}
	if b[0] != metadataVersion {
		return m, fmt.Errorf("%w: version %d, this node knows %d", errMetadata, b[0], metadataVersion)
	}
	m.member = Member{
		State: State(b[1]), ProtocolLow: b[2], ProtocolHigh: b[3], ID: ID(b[4:20]),
		CapacityBytes: int64(binary.LittleEndian.Uint64(b[28:]) &^ (1 << 63)),
		FreeBytes:     int64(binary.LittleEndian.Uint64(b[36:]) &^ (1 << 63)),
	}
	m.member.Start = binary.LittleEndian.Uint64(b[20:])
	b = b[metadataFixedBytes:]
	for _, f := range []struct {
		to       *string
		bytesMax int
	}{{&m.poolID, PoolIDBytesMax}, {&m.member.Address, AddressBytesMax}, {&m.member.Zone, ZoneBytesMax}} {
		if *f.to, b, err = cutString(b, f.bytesMax); err != nil {
			return m, err
		}
	}
	if len(b) < 1 || int(b[0]) > KeysMax || len(b) < 1+int(b[0])*fingerprintBytes {
		return m, fmt.Errorf("%w: fingerprints of keys", errMetadata)
	}
	for i := range int(b[0]) {
		m.keys = append(m.keys, fingerprint(b[1+i*fingerprintBytes:][:fingerprintBytes]))
	}
	return m, checkMetadata(&m)
}

// checkMetadata wants what every node must have.
func checkMetadata(m *metadata) error {
	switch {
	case m.member.ID == ID{}:
		return fmt.Errorf("%w: no node ID", errMetadata)
	case m.poolID == "":
		return fmt.Errorf("%w: no pool ID", errMetadata)
	case m.member.State > Leaving:
		return fmt.Errorf("%w: state %d", errMetadata, m.member.State)
	case m.member.ProtocolLow > m.member.ProtocolHigh:
		return fmt.Errorf("%w: protocols %d to %d", errMetadata, m.member.ProtocolLow, m.member.ProtocolHigh)
	}
	if a, err := ParseAddress(m.member.Address, 0); err != nil || a.Any() || a.Port == 0 {
		return fmt.Errorf("%w: data address %q", errMetadata, m.member.Address)
	}
	return nil
}

// cutString takes a string with its length before it off b.
func cutString(b []byte, bytesMax int) (s string, rest []byte, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return "", nil, fmt.Errorf("%w: it ends in a string", errMetadata)
	}
	n := int(b[0])
	if n > bytesMax {
		return "", nil, fmt.Errorf("%w: a string of %d bytes, want at most %d", errMetadata, n, bytesMax)
	}
	return string(b[1 : 1+n]), b[1+n:], nil
}
