package vm

import (
	"fmt"
	"os"
	"os/exec"
)

// NewDrive makes an empty file for a drive, without holes' worth of disk.
func NewDrive(path string, bytes int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(bytes)
}

// NewExt4 makes a file for a drive that holds an empty ext4 file system, with no partitions.
func NewExt4(path string, bytes int64) error {
	mkfs, err := lookPath("mke2fs")
	if err != nil {
		return err
	}
	if err := NewDrive(path, bytes); err != nil {
		return err
	}
	// Written at once rather than by the kernel later, so that nothing else writes there.
	out, err := exec.Command(mkfs, "-q", "-F", "-t", "ext4", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mke2fs %s: %w: %s", path, err, out)
	}
	return nil
}
