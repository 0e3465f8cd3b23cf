package device_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spillway-kv/spillway/engine/device"
)

// mediumModes are the ways to drive a medium.
var mediumModes = map[string]struct {
	engine string
	do     func(m *device.Medium, op *device.Op)
}{
	"ring":     {device.EngineUring, func(m *device.Medium, op *device.Op) { m.Submit([]*device.Op{op}) }},
	"waiting":  {device.EngineUring, func(m *device.Medium, op *device.Op) { m.SubmitWaiting(op) }},
	"worker":   {device.EnginePsync, func(m *device.Medium, op *device.Op) { m.Submit([]*device.Op{op}) }},
	"transfer": {device.EnginePsync, func(m *device.Medium, op *device.Op) { m.Transfer(op) }},
}

func openMedium(t *testing.T, path string, o device.MediumOptions) *device.Medium {
	t.Helper()
	m, err := device.OpenMedium(path, o)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestMedium(t *testing.T) {
	for name, mode := range mediumModes {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			m := openMedium(t, path, device.MediumOptions{Engine: mode.engine, QueueDepth: 2, GrowBytes: 1 << 20})
			if n := m.File().SizeBytes(); n != 1<<20 {
				t.Fatalf("%d bytes", n)
			}
			sent, got := device.AlignedBuffer(8192, 4096), device.AlignedBuffer(8192, 4096)
			for i := range sent {
				sent[i] = byte(i * 3)
			}
			do := func(kind device.Kind, offset int64, b []byte) error {
				ended := make(chan error, 1)
				mode.do(m, &device.Op{Kind: kind, File: m.File(), Offset: offset, Bufs: [][]byte{b}, Done: func(op *device.Op) {
					if op.StartedAt.IsZero() || op.DoneAt.Before(op.StartedAt) {
						op.Err = errors.Join(op.Err, errors.New("times"))
					}
					ended <- op.Err
				}})
				return <-ended
			}
			if err := errors.Join(do(device.Write, 12288, sent), do(device.Read, 12288, got)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(sent, got) {
				t.Error("the bytes come back changed")
			}
			if err := do(device.Write, 1<<20, sent); err == nil {
				t.Error("a write past the end was done")
			}
		})
	}
}

// TestMediumPaths: nothing is made by looking, and what is no file is refused.
func TestMediumPaths(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	if _, err := device.OpenMedium(missing, device.MediumOptions{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := device.OpenMedium(filepath.Join(missing, "file"), device.MediumOptions{GrowBytes: 4096}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing folder: %v", err)
	}
	if _, err := device.OpenMedium(missing, device.MediumOptions{Engine: device.EnginePsync, Buffered: true, GrowBytes: 1 << 60}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("more than there is room for: %v", err)
	}
	if _, err := device.OpenMedium(dir, device.MediumOptions{ReadOnly: true}); err == nil {
		t.Error("a folder was opened")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}
