package fabrictest

import (
	"bytes"
	"encoding/binary"
	"sync"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// guardBytes lie on both sides of a region, and must never change.
const (
	guardBytes = 4096
	guardByte  = 0xa7
)

// memory is a region, and what is around it.
type memory struct {
	fabric.Region
	k    *kit
	all  []byte // guard, bytes, guard
	mem  []byte // registered
	once sync.Once
}

// memory registers so many bytes, all zero.
func (k *kit) memory(d fabric.Device, bytes int, rights fabric.Rights) *memory {
	k.Helper()
	all, err := mapMemory(bytes + 2*guardBytes)
	k.must(err)
	m := &memory{k: k, all: all, mem: all[guardBytes : guardBytes+bytes : guardBytes+bytes]}
	for _, guard := range m.guards() {
		for i := range guard {
			guard[i] = guardByte
		}
	}
	if m.Region, err = d.Register(m.mem, rights); err != nil {
		unmapMemory(all)
		k.Fatalf("Register of %d bytes: %v", bytes, err)
	}
	k.memories = append(k.memories, m)
	return m
}

func (m *memory) guards() [2][]byte {
	return [2][]byte{m.all[:guardBytes], m.all[guardBytes+len(m.mem):]}
}

// deregister ends the region, once.
func (m *memory) deregister() {
	m.k.Helper()
	m.once.Do(func() {
		if err := m.Deregister(); err != nil {
			m.k.Errorf("Deregister: %v", err)
		}
	})
}

func (m *memory) unmap() {
	m.k.Helper()
	for _, guard := range m.guards() {
		if !uniform(guard, guardByte) {
			m.k.Errorf("bytes outside a region of %d have changed", len(m.mem))
		}
	}
	unmapMemory(m.all)
}

// at is the address of byte i.
func (m *memory) at(i int) uint64 { return m.Address() + uint64(i) }

// fill writes a pattern that no other seed has.
func fill(mem []byte, seed uint64) {
	x := seed*0x9e3779b97f4a7c15 + 1
	for len(mem) >= 8 {
		x += 0x9e3779b97f4a7c15
		y := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		binary.LittleEndian.PutUint64(mem, y^y>>27)
		mem = mem[8:]
	}
	for i := range mem {
		mem[i] = byte(x>>(8*i)) | 1
	}
}

// set makes all bytes v.
func set(mem []byte, v byte) {
	if len(mem) == 0 {
		return
	}
	mem[0] = v
	for n := 1; n < len(mem); n *= 2 {
		copy(mem[n:], mem[:n])
	}
}

// uniform says whether all bytes are v.
func uniform(mem []byte, v byte) bool {
	return len(mem) == 0 || mem[0] == v && bytes.Equal(mem[1:], mem[:len(mem)-1])
}

// write is one of bytes of from to a place of to.
func write(from *memory, fromByte int, to *memory, toByte, n int) fabric.Write {
	return fabric.Write{
		Source: from.at(fromByte), SourceKey: from.LocalKey(), Bytes: uint32(n),
		Target: to.at(toByte), TargetKey: to.RemoteKey(),
	}
}

// split is write in pieces.
func split(from *memory, fromByte int, to *memory, toByte, n, piece int) (list []fabric.Write) {
	for n > 0 {
		m := min(n, piece)
		list = append(list, write(from, fromByte, to, toByte, m))
		fromByte, toByte, n = fromByte+m, toByte+m, n-m
	}
	return list
}

// inline is a write of bytes that are not registered.
func inline(b []byte, to *memory, toByte int) fabric.Write {
	return fabric.Write{Inline: b, Target: to.at(toByte), TargetKey: to.RemoteKey()}
}

// notify is a write of nothing, with an immediate.
func notify(immediate uint32) fabric.Write { return fabric.Write{Notify: true, Immediate: immediate} }
