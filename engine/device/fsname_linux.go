package device

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// allowedFileSystems keep what direct I/O promises: past the page cache, and
// preallocated space that stays where it is.
var allowedFileSystems = []string{"ext4", "xfs"}

// fileSystemNames are the names of statfs magic numbers. ext2 and ext3 share
// ext4's number, and its driver.
var fileSystemNames = map[uint32]string{
	unix.EXT4_SUPER_MAGIC:      "ext4",
	unix.XFS_SUPER_MAGIC:       "xfs",
	unix.BTRFS_SUPER_MAGIC:     "btrfs",
	unix.F2FS_SUPER_MAGIC:      "f2fs",
	unix.BCACHEFS_SUPER_MAGIC:  "bcachefs",
	0x2fc12fc1:                 "zfs",
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.RAMFS_MAGIC:           "ramfs",
	unix.HUGETLBFS_MAGIC:       "hugetlbfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	unix.NFS_SUPER_MAGIC:       "nfs",
	unix.CIFS_SUPER_MAGIC:      "cifs",
	unix.SMB2_SUPER_MAGIC:      "smb2",
	unix.CEPH_SUPER_MAGIC:      "ceph",
	unix.FUSE_SUPER_MAGIC:      "fuse",
	unix.V9FS_MAGIC:            "9p",
	unix.EXFAT_SUPER_MAGIC:     "exfat",
	unix.MSDOS_SUPER_MAGIC:     "vfat",
}

// inMemory file systems may accept O_DIRECT, which then means nothing.
var inMemory = []string{"tmpfs", "ramfs", "hugetlbfs"}

// fileSystemName names the file system of an open file.
func fileSystemName(f *os.File) (string, error) {
	var s unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(int(f.Fd()), &s) }); err != nil {
		return "", fmt.Errorf("statfs: %w", err)
	}
	magic := uint32(s.Type)
	if name, known := fileSystemNames[magic]; known {
		return name, nil
	}
	return fmt.Sprintf("file system %#x", magic), nil
}
