package wal

import (
	"bytes"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
)

// TestRealDirectory runs a log through several laps in a real directory.
func TestRealDirectory(t *testing.T) {
	dev, err := device.OpenDir(t.TempDir(), device.Options{BufferedIO: true, AnyFileSystem: true})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, dev)
	o := smallLog()
	next, from := Position(1), Position(0)
	for life := range uint64(3) {
		l := mustOpen(t, dev, o, next)
		l.Trim(next - 1)
		for range 100 {
			p := mustAppend(t, l, payloadOf(life, l.Last()+1, 3000), false)
			if err := l.Sync(p); err != nil {
				t.Fatal(err)
			}
			if from = p - 5; from > next {
				l.Trim(from)
			}
		}
		mustClose(t, l)
		records, found, err := recoverAll(dev, o, from)
		if err != nil || len(records) != 5 || found.Tail != TailClean || found.Gaps != nil {
			t.Fatalf("life %d: %d records, %+v, %v", life, len(records), found, err)
		}
		for _, r := range records {
			if !bytes.Equal(r.payload, payloadOf(life, r.position, 3000)) {
				t.Errorf("life %d: wrong bytes at %d", life, r.position)
			}
		}
		next = found.Last + 1
	}
}
