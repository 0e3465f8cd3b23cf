package engine

// Version names one put of a block: nothing else ever has the same. The zero Version
// is none.
type Version struct {
	ID       BlockID // derived from namespace, incarnation, group and key
	Position uint64  // of the put in its store's log
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
	return ns.versions(ns.byKey(len(keys), func(i int) Key { return keys[i] }), versions, nil)
}

func (ns *Namespace) versions(a asked, versions []Version, checksums []uint64) error {
	s := ns.s
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	ids, refs := a.all()
	clear(versions[:a.n])
	for from := 0; from < a.n; from += holdMax {
		to := min(from+holdMax, a.n)
		s.mu.Lock()
		ns.findLocked(&a, ids[from:to], refs[from:to])
		for i := from; i < to; i++ {
			if refs[i] == 0 {
				continue
			}
			if rec := s.table.At(refs[i]); rec.State() == statePresent {
				versions[i] = Version{idBytes(ids[i]), rec.Position()}
				if checksums != nil {
					checksums[i] = rec.Checksum
				}
			}
		}
		s.mu.Unlock()
	}
	return nil
}
