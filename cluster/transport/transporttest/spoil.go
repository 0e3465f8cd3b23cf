package transporttest

import "bytes"

const spoilt = 0xA5

var pattern = bytes.Repeat([]byte{spoilt}, 64<<10)

// Spoil fills memory that nobody may write to, or read, any more.
func Spoil(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, pattern):]
	}
}

// IsSpoilt reports whether b is as Spoil has left it.
func IsSpoilt(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(pattern))
		if !bytes.Equal(b[:n], pattern[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}
