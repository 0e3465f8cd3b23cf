package result

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// Errno is the system's number of an error for Recorder.Fail: EIO where the error
// carries none.
func Errno(err error) int {
	var number unix.Errno
	if errors.As(err, &number) && number != 0 {
		return int(number)
	}
	return int(unix.EIO)
}

// errnoText is the system's text, with a capital first letter as in C.
func errnoText(errno int) string {
	if errno == 0 {
		return "Success"
	}
	text := unix.Errno(errno).Error()
	return strings.ToUpper(text[:1]) + text[1:]
}
