package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// newCgroup makes a memory cgroup of at most limitBytes, page cache included;
// remove it when its processes have ended. group is "" on an error.
func newCgroup(limitBytes int64) (group string, remove func(), err error) {
	name := fmt.Sprintf("spillway-bench-%d", os.Getpid())
	for _, way := range []struct{ parent, file string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		group = filepath.Join(way.parent, name)
		if mkErr := os.Mkdir(group, 0o755); mkErr != nil {
			err = errors.Join(err, mkErr)
			continue
		}
		remove = func() { _ = os.Remove(group) } // a cgroup without processes; nothing else to be done
		writeErr := os.WriteFile(filepath.Join(group, way.file), fmt.Append(nil, limitBytes), 0)
		if writeErr == nil {
			return group, remove, nil
		}
		remove()
		err = errors.Join(err, writeErr)
	}
	return "", func() {}, fmt.Errorf("no memory cgroup can be made: %w", err)
}

// ramDrive is a mounted file system on a block device in memory.
type ramDrive struct{ dir, kind string }

// newRAMDrive makes a block device in memory with ext4, which takes root. Call
// undo in any case.
func newRAMDrive(ctx context.Context, sizeBytes int64) (d ramDrive, undo func(), err error) {
	var undos []func()
	undo = func() {
		for len(undos) > 0 {
			undos[len(undos)-1]()
			undos = undos[:len(undos)-1]
		}
	}
	if os.Getuid() != 0 {
		return d, undo, errors.New("a block device in memory takes root")
	}
	later := func(name string, args ...string) { // without ctx: it must happen after an interrupt too
		undos = append(undos, func() {
			if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "bench: %s %v: %v: %s\n", name, args, err, out)
			}
		})
	}
	device, kind := "", "zram"
	device, err = command(ctx, "zramctl", "--find", "--size", fmt.Sprint(sizeBytes))
	if err == nil {
		later("zramctl", "--reset", device)
	} else {
		kind = "a loop device on tmpfs"
		file := fmt.Sprintf("/dev/shm/spillway-bench-%d", os.Getpid())
		later("rm", "-f", file)
		if _, err = command(ctx, "truncate", "-s", fmt.Sprint(sizeBytes), file); err != nil {
			return d, undo, err
		}
		if device, err = command(ctx, "losetup", "--find", "--show", file); err != nil {
			return d, undo, err
		}
		later("losetup", "--detach", device)
	}
	dir, err := os.MkdirTemp("", "spillway-bench-ram-")
	if err != nil {
		return d, undo, err
	}
	undos = append(undos, func() { _ = os.Remove(dir) })
	if _, err = command(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", device); err != nil {
		return d, undo, err
	}
	if _, err = command(ctx, "mount", device, dir); err != nil {
		return d, undo, err
	}
	later("umount", dir)
	return ramDrive{dir, kind}, undo, nil
}

func command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return text, nil
}
