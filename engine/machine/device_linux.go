package machine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// blockDevice is major:minor if path is one, else "".
func blockDevice(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return ""
	}
	return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
}
