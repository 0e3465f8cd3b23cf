package fabrictest

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
)

// testOrder: bytes, then the record, then the immediate; each way in turn, the other side
// looking at all of it as soon as the receive has completed.
func testOrder(k *kit) {
	const size, rounds = 200_000, 60
	a, b := k.pair(room)
	type way struct {
		from, to *side
		src, dst *memory
		records  *memory
	}
	ways := []way{
		{a, b, k.memory(k.a, size, 0), k.memory(k.b, size, fabric.RemoteWrite), k.memory(k.b, 64, fabric.RemoteWrite)},
		{b, a, k.memory(k.b, size, 0), k.memory(k.a, size, fabric.RemoteWrite), k.memory(k.a, 64, fabric.RemoteWrite)},
	}
	a.receives(2)
	b.receives(2)
	for round := range uint64(rounds) {
		for i, w := range ways {
			fill(w.src.mem, round*2+uint64(i))
			record := binary.LittleEndian.AppendUint64(nil, round)
			list := append(split(w.src, 0, w.dst, 0, size, 1+int(round)*997+size/9), inline(record, w.records, 8))
			if round%2 == 0 { // the record's own write has the immediate, or one of nothing
				list[len(list)-1].Notify, list[len(list)-1].Immediate = true, uint32(round)
			} else {
				list = append(list, notify(uint32(round)))
			}
			w.from.post(round, list...)
			w.to.received(uint32(round))
			if got := binary.LittleEndian.Uint64(w.records.mem[8:]); got != round {
				k.Fatalf("round %d, way %d: record of round %d", round, i, got)
			}
			if !bytes.Equal(w.src.mem, w.dst.mem) {
				k.Fatalf("round %d, way %d: wrong bytes", round, i)
			}
			w.from.sent(round, fabric.OK)
			w.to.receives(1)
		}
	}
}

// testSizes: 1 byte to 64 MiB, in pieces of a megabyte and as large as the device takes.
func testSizes(k *kit) {
	const margin = 64 << 10
	limit := k.a.Port().Limits.MessageBytesMax
	a, b := k.pair(fabric.QueueOptions{Sends: 128, Receives: 8, RemoteWrite: true})
	sizes := []int{1, 2, 3, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 1<<20 - 1, 1 << 20, 1<<20 + 1, 8 << 20, 64 << 20}
	largest := sizes[len(sizes)-1]
	src, dst := k.memory(k.a, largest, 0), k.memory(k.b, largest, fabric.RemoteWrite)
	fill(src.mem, 7)
	for i, size := range sizes {
		for _, piece := range []int{min(1<<20, limit), min(limit, 1<<30)} {
			at := (largest - size) / 2
			around := dst.mem[max(at-margin, 0):min(at+size+margin, largest)]
			set(around, 0)
			b.receives(1)
			a.post(uint64(i), append(split(src, largest-size, dst, at, size, piece), notify(uint32(size)))...)
			b.received(uint32(size))
			a.sent(uint64(i), fabric.OK)
			if !bytes.Equal(dst.mem[at:at+size], src.mem[largest-size:]) || !uniform(around[:min(at, margin)], 0) || !uniform(around[min(at, margin)+size:], 0) {
				k.Fatalf("%d bytes in pieces of %d: wrong bytes", size, piece)
			}
		}
	}
}

// testInline: what is inline is copied when it is posted.
func testInline(k *kit) {
	a, b := k.pair(room)
	dst := k.memory(k.b, 4096, fabric.RemoteWrite)
	largest := k.a.Port().Limits.InlineBytesMax
	want := make([]byte, 4096)
	b.receives(3)
	for i, size := range []int{1, 32, largest} {
		one, two := make([]byte, size), make([]byte, size)
		fill(one, uint64(i))
		fill(two, uint64(i)+100)
		at := 1024 * i
		copy(want[at:], one)
		copy(want[at+size:], two)
		last := inline(two, dst, at+size)
		last.Notify, last.Immediate = true, uint32(i)
		a.post(uint64(i), inline(one, dst, at), last)
		set(one, 0xee)
		set(two, 0xee)
		a.sent(uint64(i), fabric.OK)
		b.received(uint32(i))
		if !bytes.Equal(dst.mem, want) {
			k.Fatalf("%d bytes inline: wrong bytes", size)
		}
	}
}

// testImmediates: all 32 bits come over, in order, with bytes and without.
func testImmediates(k *kit) {
	a, b := k.pair(room)
	dst := k.memory(k.b, 8, fabric.RemoteWrite)
	values := []uint32{0, 1, 0xff, 0x100, 0x01020304, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff}
	b.receives(len(values) * 2)
	for i, v := range values {
		w := inline([]byte{byte(i)}, dst, 0)
		w.Notify, w.Immediate = true, v
		a.post(uint64(i), notify(v), w)
	}
	for i := range values {
		a.sent(uint64(i), fabric.OK)
	}
	for _, v := range values {
		b.received(v)
		b.received(v)
	}
}

// testLists: many lists of any length are posted before any is looked at: completions come
// in their order, one for each.
func testLists(k *kit) {
	const lists = 300
	o := fabric.QueueOptions{Sends: 48, Receives: lists, RemoteWrite: true}
	a, b := k.pair(o)
	src, dst := k.memory(k.a, 1<<16, 0), k.memory(k.b, 1<<16, fabric.RemoteWrite)
	fill(src.mem, 1)
	b.receives(lists)
	var done, posted uint64
	for done < lists {
		for posted < lists {
			length := 1 + int(posted*7)%o.Sends
			list := split(src, 0, dst, 0, length*128, 128)
			list[length-1].Notify, list[length-1].Immediate = true, uint32(posted)
			err := a.PostWrites(posted<<32|1, list)
			if errors.Is(err, fabric.ErrFull) {
				break
			}
			k.must(err)
			posted++
		}
		if posted == done {
			k.Fatalf("ErrFull, though nothing is posted")
		}
		a.sent(done<<32|1, fabric.OK)
		done++
	}
	for i, c := range b.take(b.Receives(), lists) {
		if c.Result != fabric.OK || c.Immediate != uint32(i) {
			k.Fatalf("receive %d: %+v", i, c)
		}
	}
	longest := o.Sends * 128
	if !bytes.Equal(src.mem[:longest], dst.mem[:longest]) {
		k.Errorf("wrong bytes")
	}
	if n := a.Sends().Poll(make([]fabric.Completion, 8)); n != 0 {
		k.Errorf("%d completions too many", n)
	}
}

// testSendsFull: what does not fit is refused as a whole, and changes nothing.
func testSendsFull(k *kit) {
	o := fabric.QueueOptions{Sends: 8, Receives: 8, RemoteWrite: true}
	a, b := k.pair(o)
	src, dst := k.memory(k.a, 64, 0), k.memory(k.b, 64, fabric.RemoteWrite)
	set(src.mem, 1)
	too := split(src, 0, dst, 0, 9, 1)
	if err := a.PostWrites(1, too); !errors.Is(err, fabric.ErrFull) {
		k.Fatalf("9 writes where 8 have room: %v, want ErrFull", err)
	}
	a.post(2, too[:5]...)
	if err := a.PostWrites(3, split(src, 16, dst, 16, 4, 1)); !errors.Is(err, fabric.ErrFull) {
		k.Fatalf("4 writes where 3 have room: %v, want ErrFull", err)
	}
	a.post(4, split(src, 32, dst, 32, 3, 1)...)
	if err := a.PostWrites(5, split(src, 40, dst, 40, 1, 1)); !errors.Is(err, fabric.ErrFull) {
		k.Fatalf("a write where none has room: %v, want ErrFull", err)
	}
	a.sent(2, fabric.OK)
	a.sent(4, fabric.OK)
	b.receives(1)
	a.post(6, append(split(src, 48, dst, 48, 7, 1), notify(6))...)
	a.sent(6, fabric.OK)
	b.received(6)
	for i, v := range dst.mem {
		written := i < 5 || i >= 32 && i < 35 || i >= 48 && i < 55
		if (v == 1) != written {
			k.Errorf("byte %d is %d", i, v)
		}
	}
}

// testReceivesFull: receives have a bound, and room again when they have completed.
func testReceivesFull(k *kit) {
	a, b := k.pair(fabric.QueueOptions{Sends: 8, Receives: 4, RemoteWrite: true})
	b.receives(3)
	for _, n := range []int{2, 5, 1000} {
		if err := b.PostReceives(n); !errors.Is(err, fabric.ErrFull) {
			k.Fatalf("%d receives where 1 has room: %v, want ErrFull", n, err)
		}
	}
	b.receives(1)
	for i := range uint32(20) {
		a.post(uint64(i), notify(i))
		a.sent(uint64(i), fabric.OK)
		b.received(i)
		b.receives(1)
	}
	for i := range uint32(4) {
		a.post(uint64(i), notify(i))
		b.received(i)
	}
	b.receives(4)
}
