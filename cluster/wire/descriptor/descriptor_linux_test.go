package descriptor_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-kv/spillway/cluster/wire/descriptor"
)

// TestDuplicate: the copy is the same file, is not inherited, and outlives the first.
func TestDuplicate(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := descriptor.Duplicate(f)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	flags := 0
	err = descriptor.With(again, func(fd int) (err error) {
		flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		return err
	})
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := again.WriteString("text"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(again.Name()); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := descriptor.Duplicate(f); err == nil {
		t.Error("duplicated a closed file")
	}
	if err := descriptor.With(again, func(int) error { return io.EOF }); !errors.Is(err, io.EOF) {
		t.Errorf("an error of the call: %v", err)
	}
}
