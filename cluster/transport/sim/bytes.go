package sim

// harm is what befalls a block.
type harm uint8

const (
	unharmed harm = iota
	damaged
	truncated
)

// damage draws what befalls a block.
func (n *Network) damage() harm {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch p, draw := n.payload, n.rng.Float64(); {
	case draw < p.Damaged:
		return damaged
	case draw < p.Damaged+p.Truncated:
		return truncated
	}
	return unharmed
}

func bytesOf(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// copyPart copies the bytes from..to of src to the same place of dst. Both have as many
// in all, cut in pieces of their own.
func copyPart(dst, src [][]byte, from, to int) {
	for at := from; at < to; {
		d, s := rest(dst, at), rest(src, at)
		at += copy(d[:min(len(d), to-at)], s)
	}
}

// rest is what is left of the piece that has byte at.
func rest(pieces [][]byte, at int) []byte {
	for _, p := range pieces {
		if at < len(p) {
			return p[at:]
		}
		at -= len(p)
	}
	return nil
}

// flipByte changes one byte.
func flipByte(pieces [][]byte, at int) { rest(pieces, at)[0] ^= 0x55 }
