package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestRecentKeys: what is found is what was put under that position, and the newest
// puts are found as long as their keys have room.
func TestRecentKeys(t *testing.T) {
	for _, puts := range []int{0, 1, 7, 100, recentPutsMax + 1} {
		rng := rand.New(rand.NewPCG(1, uint64(puts)))
		r, err := newRecentKeys(puts)
		if err != nil {
			t.Fatal(err)
		}
		defer r.free()
		type put struct {
			position uint64
			group    uint32
			key      []byte
		}
		var all []put
		for position := uint64(3); len(all) < 300; position += 1 + rng.Uint64N(5) {
			p := put{position, rng.Uint32(), bytes.Repeat([]byte{byte(rng.Uint32())}, 1+rng.IntN(KeyMaxBytes))}
			r.add(p.position, p.group, p.key)
			all = append(all, p)
			found, text := 0, 0
			for i := len(all) - 1; i >= 0; i-- {
				want := all[i]
				group, key, ok := r.find(want.position)
				if ok && (group != want.group || !bytes.Equal(key, want.key)) {
					t.Fatalf("%d puts: position %d has another key", puts, want.position)
				}
				text += len(want.key) + KeyMaxBytes // at worst a gap at the end of the ring
				if room := i == len(all)-1 || len(all)-i <= puts && text <= r.textBytes(); room && !ok {
					t.Fatalf("%d puts: position %d, the newest but %d, is forgotten", puts, want.position, len(all)-1-i)
				}
				if ok {
					found++
				}
				if _, _, ok := r.find(want.position + 1); ok && (i == len(all)-1 || all[i+1].position != want.position+1) {
					t.Fatalf("%d puts: position %d was never put", puts, want.position+1)
				}
			}
			if found > max(puts, 1) {
				t.Fatalf("%d of %d puts are remembered", found, puts)
			}
		}
	}
}

func (r *recentKeys) textBytes() int { return len(r.text.Slice()) }
