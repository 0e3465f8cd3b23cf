package engine

import (
	"fmt"

	"github.com/spillway-kv/spillway/engine/table"
)

// BlockID names a block in every store: the same bytes as Version.ID, derived from
// namespace, incarnation, group and key (docs/format/index.md).
type BlockID = [16]byte

// asked are the blocks of a call: named by keys, or by IDs that the caller has. Keys are
// looked up under the incarnation of the moment when the call began. IDs say their
// incarnation themselves, and may be of any namespace.
type asked struct {
	n           int
	key         func(int) Key // nil: ids are given
	ids         []BlockID
	nsID        *[32]byte
	incarnation uint32 // of the keys; with ids 0, or the only one that is right
	scratch     []byte
}

// byKey asks for n keys.
func (ns *Namespace) byKey(n int, key func(int) Key) asked {
	return asked{n: n, key: key, nsID: &ns.nsID, incarnation: ns.Incarnation()}
}

func byID(ids []BlockID) asked { return asked{n: len(ids), ids: ids} }

// derive fills in the IDs of some blocks in a row.
func (a *asked) derive(from int, ids []table.ID) {
	for i := range ids {
		if a.key == nil {
			ids[i] = idFromBytes(a.ids[from+i][:])
		} else {
			ids[i], a.scratch = blockID(a.nsID, uint64(a.incarnation), a.key(from+i), a.scratch)
		}
	}
}

// all derives the IDs of all blocks; refs is room for the answers of findLocked.
func (a *asked) all() (ids []table.ID, refs []table.Ref) {
	ids, refs = make([]table.ID, a.n), make([]table.Ref, a.n)
	a.derive(0, ids)
	return ids, refs
}

// findLocked looks some of the blocks up. What is not of this namespace is not found,
// nor anything of an incarnation that has been dropped.
func (ns *Namespace) findLocked(a *asked, ids []table.ID, refs []table.Ref) {
	s := ns.s
	if a.incarnation != 0 && a.incarnation != ns.incarnation || a.key == nil && ns.dropping {
		clear(refs)
		return
	}
	s.table.FindBatch(ids, refs)
	if a.key != nil {
		return
	}
	for i, ref := range refs {
		if ref != 0 && s.table.At(ref).Namespace() != ns.number {
			refs[i] = 0
		}
	}
}

// Incarnation is the namespace's at this moment.
func (ns *Namespace) Incarnation() uint32 {
	ns.s.mu.Lock()
	defer ns.s.mu.Unlock()
	return ns.incarnation
}

// IDs derives the IDs of keys under the incarnation of this moment. A key that no block
// can have has an ID that no block has.
func (ns *Namespace) IDs(keys []Key) (ids []BlockID, incarnation uint32) {
	a := ns.byKey(len(keys), func(i int) Key { return keys[i] })
	ids = make([]BlockID, len(keys))
	var one [1]table.ID
	for i := range ids {
		a.derive(i, one[:])
		ids[i] = idBytes(one[0])
	}
	return ids, a.incarnation
}

// MatchIDs is Match for blocks named by their IDs. An ID of another namespace, or of an
// incarnation that was dropped, is absent.
func (ns *Namespace) MatchIDs(ids []BlockID, o MatchOptions) (MatchResult, error) {
	return ns.match(byID(ids), o)
}

// GetIDs is Get for blocks named by their IDs: the key of an item is not looked at. ids
// and items have the same length.
func (ns *Namespace) GetIDs(ids []BlockID, items []GetItem, o GetOptions) error {
	if len(ids) != len(items) {
		return fmt.Errorf("%w: %d IDs for %d items", ErrConfig, len(ids), len(items))
	}
	return ns.get(byID(ids), items, o)
}

// TouchIDs is Touch for blocks named by their IDs.
func (ns *Namespace) TouchIDs(ids []BlockID) (int, error) { return ns.touch(byID(ids)) }

// DeleteIDs is Delete for blocks of an incarnation named by their IDs. Where the
// namespace has another incarnation it answers ErrGone and has done nothing.
func (ns *Namespace) DeleteIDs(incarnation uint32, ids []BlockID) (int, error) {
	a := byID(ids)
	a.incarnation = incarnation
	return ns.delete(a)
}

// VersionsIDs is Versions for blocks named by their IDs. checksums, if not nil, gets
// what Checksum gives for the bytes of each version, and has room for all.
func (ns *Namespace) VersionsIDs(ids []BlockID, versions []Version, checksums []uint64) error {
	return ns.versions(byID(ids), versions, checksums)
}

// Checksum is what the store keeps of a block beside its bytes, pieces in order: bytes
// that have it are those of a put of this very block, whole.
func Checksum(id BlockID, pieces [][]byte) uint64 { return checksum(idFromBytes(id[:]), pieces) }
