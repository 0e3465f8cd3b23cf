//go:build verbs && linux

package verbs

// #include "shim.h"
import "C"

import (
	"fmt"
	"net/netip"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// Port states, in the library's numbers.
var states = [...]string{"no state", "down", "initializing", "armed", "active", "active, waiting"}

const stateActive = 4

// limitsOf asks for a device's limits.
func limitsOf(c *C.struct_sv_context) (C.struct_sv_limits, error) {
	var l C.struct_sv_limits
	if rc := C.sv_limits_query(c, &l); rc != 0 {
		return l, fmt.Errorf("ask for its limits: %w", errno(int(rc)))
	}
	return l, nil
}

// refresh asks for what changes of a port, and its limits.
func refresh(c *C.struct_sv_context, p *fabric.Port, l C.struct_sv_limits) error {
	var now C.struct_sv_port
	if rc := C.sv_port_query(c, C.uint8_t(p.Number), &now); rc != 0 {
		return fmt.Errorf("ask for port %d: %w", p.Number, errno(int(rc)))
	}
	p.Ethernet = now.ethernet != 0
	p.Active = now.state == stateActive
	p.State = fmt.Sprintf("state %d", now.state)
	if int(now.state) < len(states) {
		p.State = states[now.state]
	}
	p.LID = uint16(now.lid)
	p.MTUBytes = int(now.mtu_bytes)
	posted := int(min(l.requests_max, l.completions_max))
	p.Limits = fabric.Limits{
		MessageBytesMax: int(now.message_bytes_max),
		SendsMax:        posted,
		ReceivesMax:     posted,
		RegionBytesMax:  int64(min(l.region_bytes_max, 1<<62)),
		InlineBytesMax:  C.SV_INLINE_BYTES,
		GPUMemory:       p.Limits.GPUMemory,
	}
	return nil
}

// gids are the addresses in use of each port of a device.
func (m *machine) gids(c *C.struct_sv_context, device string, ports int) (map[uint8][]fabric.GID, error) {
	room := 0
	for number := 1; number <= ports; number++ {
		var p C.struct_sv_port
		if rc := C.sv_port_query(c, C.uint8_t(number), &p); rc != 0 {
			return nil, fmt.Errorf("ask for port %d: %w", number, errno(int(rc)))
		}
		room += int(p.gids)
	}
	list := make([]C.struct_sv_gid, room+1)
	n := int(C.sv_gids_query(c, &list[0], C.size_t(room)))
	if n < 0 { // an old library, or an old kernel
		return m.sys.gids(device, ports)
	}
	gids := make(map[uint8][]fabric.GID)
	for _, g := range list[:n] {
		number := uint8(g.port)
		gids[number] = append(gids[number], newGID(int(g.index), fabric.GIDType(g._type), addressOfGID(g.address), interfaceName(int(g._interface))))
	}
	return gids, nil
}

func addressOfGID(b [16]C.uint8_t) netip.Addr {
	var a [16]byte
	for i := range b {
		a[i] = byte(b[i])
	}
	return netip.AddrFrom16(a)
}

func gidOfAddress(a netip.Addr) (b [16]C.uint8_t) {
	for i, v := range a.As16() {
		b[i] = C.uint8_t(v)
	}
	return b
}
