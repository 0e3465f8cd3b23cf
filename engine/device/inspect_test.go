package device

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	for _, held := range []bool{false, true} {
		dir := t.TempDir()
		var want Facts
		if held {
			d, err := OpenDir(dir, Options{AnyFileSystem: true, BufferedIO: true})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			want = d.Facts()
		}
		before := names(t, dir)
		p, err := Probe(dir)
		if err != nil {
			t.Fatal(err)
		}
		if after := names(t, dir); after != before {
			t.Errorf("held %t: the directory holds %q, held %q", held, after, before)
		}
		if p.Facts.FileSystem == "" || p.Facts.Direct != (p.NoDirect == nil) || p.Facts.MemAlignBytes == 0 {
			t.Errorf("%+v", p)
		}
		if held && (p.Facts.Direct != want.Direct || p.Facts.Xattrs != want.Xattrs || p.Facts.Preallocate != want.Preallocate ||
			p.Facts.MemAlignBytes != want.MemAlignBytes || p.Facts.OffsetAlignBytes != want.OffsetAlignBytes) {
			t.Errorf("probed %+v, opened %+v", p.Facts, want)
		}
		holder, isHeld, err := Holder(dir)
		if err != nil || isHeld != held || held != strings.HasPrefix(holder, "pid ") {
			t.Errorf("held %t: %q, %t, %v", held, holder, isHeld, err)
		}
	}
	if _, err := Probe(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// TestHolderStays: asking does not take the lock away from its holder.
func TestHolderStays(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir, Options{AnyFileSystem: true, BufferedIO: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, held, err := Holder(dir); err != nil || !held {
			t.Errorf("held %t, %v", held, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, held, err := Holder(dir); err != nil || held {
		t.Errorf("closed: held %t, %v", held, err)
	}
}

// TestProbeUring agrees with what a device comes to.
func TestProbeUring(t *testing.T) {
	d, err := OpenDir(t.TempDir(), Options{AnyFileSystem: true, BufferedIO: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := ProbeUring(); (err == nil) != (d.Facts().Device == EngineUring) {
		t.Errorf("probe says %v, the device is %s", err, d.Facts().Device)
	}
}
