package member

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestIdentityStaysAndStartsRise(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	first, err := OpenIdentity(dir)
	if err != nil || first.Start != 1 || first.ID == (ID{}) {
		t.Fatalf("first: %+v, %v", first, err)
	}
	second, err := OpenIdentity(dir)
	if err != nil || second.ID != first.ID || second.Start != 2 {
		t.Fatalf("second: %+v, %v, want the same ID and start 2", second, err)
	}
	other, err := OpenIdentity(t.TempDir())
	if err != nil || other.ID == first.ID {
		t.Fatalf("another node: %+v, %v", other, err)
	}
	if parsed, err := ParseID(first.ID.String()); err != nil || parsed != first.ID {
		t.Errorf("ParseID: %v, %v", parsed, err)
	}
	for _, bad := range []string{"", "00", first.ID.String() + "00", "zz" + first.ID.String()[2:]} {
		if _, err := ParseID(bad); err == nil {
			t.Errorf("ParseID takes %q", bad)
		}
	}
}

// TestIdentityDamage: a damaged identity is never replaced by a new one.
func TestIdentityDamage(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenIdentity(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, identityName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"empty": {}, "short": good[:identityBytes-1], "long": append(bytes.Clone(good), 0),
		"magic": append([]byte("SPWYNOD2"), good[8:]...), "flip": flip(good, 20), "version": flip(good, 12), "sum": flip(good, 8),
	} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := OpenIdentity(dir); err == nil {
			t.Errorf("%s: opened as %+v", name, id)
		} else if name != "long" && !errors.Is(err, ErrIdentity) {
			t.Errorf("%s: %v", name, err)
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, bad) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}
