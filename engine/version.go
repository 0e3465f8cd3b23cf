package engine

import "github.com/spillway-kv/spillway/engine/table"

// Version names one put of a block: nothing else ever has the same. The zero Version
// is none.
type Version struct {
	ID       [16]byte // derived from namespace, incarnation, group and key
	Position uint64   // of the put in its store's log
}

// Versions fills in which put of each key is present at the moment of the call, none
// for a key that is absent. Like Match it reads nothing and touches nothing; versions
// has room for all keys. Whoever keeps the verified bytes of a Version may answer them
// to a question that came before this call named it: the block was not deleted, dropped
// or found damaged until then.
func (ns *Namespace) Versions(keys []Key, versions []Version) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	s := ns.s
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	ids, refs, incarnation := ns.lookup(len(keys), func(i int) Key { return keys[i] })
	clear(versions[:len(keys)])
	for from := 0; from < len(ids); from += holdMax {
		to := min(from+holdMax, len(ids))
		ns.versionsOf(ids[from:to], refs[from:to], versions[from:to], incarnation)
	}
	return nil
}

// versionsOf fills in some versions under one hold of the lock.
func (ns *Namespace) versionsOf(ids []table.ID, refs []table.Ref, versions []Version, incarnation uint32) {
	s := ns.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if ns.incarnation != incarnation {
		return
	}
	s.table.FindBatch(ids, refs)
	for i, ref := range refs {
		if ref == 0 {
			continue
		}
		if rec := s.table.At(ref); rec.State() == statePresent {
			versions[i] = Version{idBytes(ids[i]), rec.Position()}
		}
	}
}
