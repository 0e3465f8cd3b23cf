package device

// Aligned reports whether every piece may be transferred directly: its address
// and its length satisfy the device's alignment.
func (f *Facts) Aligned(bufs [][]byte) bool {
	for _, b := range bufs {
		if len(b) == 0 || len(b)%f.OffsetAlignBytes != 0 || addressOf(b)%uintptr(f.MemAlignBytes) != 0 {
			return false
		}
	}
	return true
}
