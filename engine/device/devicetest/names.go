package devicetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/spillway-kv/spillway/engine/device"
)

func testFacts(r *rig) {
	f := r.facts
	if f.Device == "" || f.FileSystem == "" {
		r.Errorf("Device %q, FileSystem %q: want names", f.Device, f.FileSystem)
	}
	for _, align := range []int{f.MemAlignBytes, f.OffsetAlignBytes} {
		if align <= 0 || bits.OnesCount(uint(align)) != 1 {
			r.Errorf("alignment %d is not a power of two", align)
		}
	}
	if f.QueueOps < 8 {
		r.Errorf("QueueOps = %d", f.QueueOps)
	}
	for _, note := range f.Notes {
		if note == "" || strings.ContainsAny(note, "\r\n") {
			r.Errorf("note %q is not one line", note)
		}
	}
	space, err := r.d.Space()
	r.must(err)
	// A memory file system without a limit may tell 0.
	if space.FreeBytes < 0 || space.FreeBytes > space.TotalBytes {
		r.Errorf("Space = %+v", space)
	}
}

func (r *rig) wantList(want ...string) {
	r.Helper()
	got, err := r.d.List()
	r.must(err)
	if !slices.Equal(got, want) {
		r.Errorf("List = %q, want %q", got, want)
	}
}

func testNames(r *rig) {
	r.wantList()
	b := r.create("b", 2)
	a := r.create("a", 1)
	if a.Name() != "a" || b.Name() != "b" {
		r.Errorf("names %q and %q", a.Name(), b.Name())
	}
	r.must(r.d.WriteFile("c.json", []byte("{}")))
	r.wantList("a", "b", "c.json")

	_, err := r.d.Create("b", int64(r.unit))
	r.wantIs("Create of a name that exists", err, fs.ErrExist)
	if again := r.open("b"); again.SizeBytes() != int64(2*r.unit) {
		r.Errorf("a refused Create changed the size to %d", again.SizeBytes())
	} else {
		r.closeFile(again)
	}
	_, err = r.d.Open("nothing")
	r.wantIs("Open of a missing name", err, fs.ErrNotExist)
	_, err = r.d.ReadFile("nothing")
	r.wantIs("ReadFile of a missing name", err, fs.ErrNotExist)
	r.wantIs("Remove of a missing name", r.d.Remove("nothing"), fs.ErrNotExist)
	r.wantIs("Rename of a missing name", r.d.Rename("nothing", "a"), fs.ErrNotExist)

	r.must(r.d.Rename("a", "z"))
	r.wantList("b", "c.json", "z")
	r.must(r.d.Remove("b"))
	r.wantList("c.json", "z")
	r.must(r.d.SyncDir())
	r.wantIs("Remove twice", r.d.Remove("b"), fs.ErrNotExist)
	r.closeFile(a)
	r.closeFile(b)
}

func testBadNames(r *rig) {
	for _, name := range []string{"", ".", "..", "a/b", "/a", "a/", "../a", "a\x00b"} {
		_, err := r.d.Create(name, int64(r.unit))
		r.wantIs(fmt.Sprintf("Create(%q)", name), err, fs.ErrInvalid)
		_, err = r.d.Open(name)
		r.wantIs(fmt.Sprintf("Open(%q)", name), err, fs.ErrInvalid)
		_, err = r.d.ReadFile(name)
		r.wantIs(fmt.Sprintf("ReadFile(%q)", name), err, fs.ErrInvalid)
		r.wantIs(fmt.Sprintf("WriteFile(%q)", name), r.d.WriteFile(name, []byte("x")), fs.ErrInvalid)
		r.wantIs(fmt.Sprintf("Remove(%q)", name), r.d.Remove(name), fs.ErrInvalid)
		r.wantIs(fmt.Sprintf("Rename(%q, ok)", name), r.d.Rename(name, "ok"), fs.ErrInvalid)
		r.wantIs(fmt.Sprintf("Rename(ok, %q)", name), r.d.Rename("ok", name), fs.ErrInvalid)
	}
	_, err := r.d.Create("negative", -1)
	r.wantIs("Create of a negative size", err, fs.ErrInvalid)
	r.wantList()
}

func testExactSize(r *rig) {
	for i, size := range []int64{0, 1, 8, int64(r.unit) - 1, int64(r.unit), int64(r.unit) + 1, 5 * int64(r.unit), 1<<20 + 24} {
		name := fmt.Sprintf("f%d", i)
		f, err := r.d.Create(name, size)
		r.must(err)
		if f.SizeBytes() != size {
			r.Errorf("created with %d bytes, SizeBytes = %d", size, f.SizeBytes())
		}
		r.closeFile(f)
		f = r.open(name)
		if f.SizeBytes() != size {
			r.Errorf("created with %d bytes, after Open SizeBytes = %d", size, f.SizeBytes())
		}
		r.closeFile(f)
		data, err := r.d.ReadFile(name)
		r.must(err)
		if int64(len(data)) != size || notAll(data, 0) >= 0 {
			r.Errorf("a new file of %d bytes reads as %d bytes, first non-zero at %d", size, len(data), notAll(data, 0))
		}
	}
}

func testRemovedFile(r *rig) {
	f := r.create("f", 4)
	r.must(r.d.Remove("f"))
	r.mustDo(write(f, 0, r.filled(4*r.unit, 0, 1)))
	got := r.buffer(4 * r.unit)
	r.mustDo(read(f, 0, got))
	if i := differsAt(got, 0, 1); i >= 0 {
		r.Errorf("removed but open: wrong byte at %d", i)
	}
	fresh := r.create("f", 4) // the name is free again, the content another
	r.mustDo(read(fresh, 0, got))
	if i := notAll(got, 0); i >= 0 {
		r.Errorf("a new file under an old name shows old bytes at %d", i)
	}
	r.closeFile(f)
	r.closeFile(fresh)
}

func testReplacedFile(r *rig) {
	old, fresh := r.create("name", 1), r.create("next", 1)
	r.mustDo(write(old, 0, r.filled(r.unit, 0, 1)), write(fresh, 0, r.filled(r.unit, 0, 2)))
	r.must(r.d.Rename("next", "name"))
	named := r.open("name")
	for version, f := range map[uint64]device.File{1: old, 2: named} {
		got := r.buffer(r.unit)
		r.mustDo(read(f, 0, got))
		if i := differsAt(got, 0, version); i >= 0 {
			r.Errorf("after Rename version %d is wrong at %d", version, i)
		}
	}
	r.closeFile(old)
	r.closeFile(fresh)
	r.closeFile(named)
	r.wantList("name")
}

func testWriteFile(r *rig) {
	for _, size := range []int{0, 1, 100, r.unit - 1, r.unit, 3*r.unit + 5, 7} {
		want := bytes.Repeat([]byte{byte(size), 'x'}, size)[:size]
		r.must(r.d.WriteFile("state", want))
		got, err := r.d.ReadFile("state")
		r.must(err)
		if !bytes.Equal(got, want) {
			r.Errorf("wrote %d bytes, read %d others", len(want), len(got))
		}
	}
	r.wantList("state")
	// A file from WriteFile can be opened like any other.
	f := r.open("state")
	got := r.buffer(r.unit)
	op := read(f, 0, got)
	r.do(op)
	if op.N != 7 || !bytes.Equal(got[:7], bytes.Repeat([]byte{7, 'x'}, 7)[:7]) {
		r.Errorf("read of a 7-byte file: N = %d, err %v, % x", op.N, op.Err, got[:8])
	}
	r.closeFile(f)
}

// testWriteFileAtomic: readers during many replacements see one whole version.
func testWriteFileAtomic(r *rig) {
	version := func(v int) []byte { return bytes.Repeat([]byte{byte('a' + v)}, 1000+100*v) }
	const versions, rounds = 8, 24
	r.must(r.d.WriteFile("state", version(0)))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				data, err := r.d.ReadFile("state")
				if err != nil {
					r.Errorf("ReadFile during replacement: %v", err)
					return
				}
				if len(data) == 0 || !bytes.Equal(data, version(int(data[0])-'a')) {
					r.Errorf("ReadFile saw a mix of versions, %d bytes", len(data))
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := range rounds {
				if err := r.d.WriteFile("state", version((2*i+w)%versions)); err != nil {
					r.Errorf("WriteFile: %v", err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	r.wantList("state")
}

func testAttr(r *rig) {
	f := r.create("f", 1)
	defer r.closeFile(f)
	if !r.facts.Xattrs {
		r.wantIs("SetAttr without support", f.SetAttr("id", []byte("v")), errors.ErrUnsupported)
		_, err := f.Attr("id")
		r.wantIs("Attr without support", err, errors.ErrUnsupported)
		return
	}
	_, err := f.Attr("id")
	r.wantIs("Attr of a missing name", err, fs.ErrNotExist)
	for _, value := range [][]byte{[]byte("one"), {}, {0, 1, 2, 255}, bytes.Repeat([]byte("v"), 200)} {
		r.must(f.SetAttr("id", value))
		got, err := f.Attr("id")
		r.must(err)
		if !bytes.Equal(got, value) {
			r.Errorf("Attr = %q, want %q", got, value)
		}
	}
	again := r.open("f")
	got, err := again.Attr("id")
	if err != nil || len(got) != 200 {
		r.Errorf("after a second Open Attr = %d bytes, err %v", len(got), err)
	}
	_, err = again.Attr("other")
	r.wantIs("Attr of another name", err, fs.ErrNotExist)
	r.closeFile(again)
}
