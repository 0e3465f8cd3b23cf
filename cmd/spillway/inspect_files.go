package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/xattr"

	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
	"github.com/spillway-kv/spillway/fio/units"
	"github.com/spillway-kv/spillway/wal"
)

// storeFileBytesMax is the engine's bound of a store file.
const storeFileBytesMax = 64 << 20

func (in *inspection) storeFile(f *os.File, _ int64) error {
	b, err := io.ReadAll(io.LimitReader(f, storeFileBytesMax))
	if err != nil {
		return err
	}
	facts, err := engine.InspectStoreFile(b)
	if err != nil {
		in.flaw(0, err.Error(), true)
		return nil
	}
	for _, flaw := range facts.Flaws {
		in.flaw(flaw.Offset, flaw.Text, flaw.Damage)
	}
	in.show(inspectStore{"store", in.path, facts.Version, facts.StoreID, facts.CapacityBytes, facts.SegmentBytes, facts.LogFileBytes, len(facts.Namespaces)},
		func() string {
			return fmt.Sprintf("  version %d, store %s, capacity %s, segments of %s, log files of %s, %d namespaces", facts.Version, facts.StoreID,
				units.Bytes(facts.CapacityBytes), units.Bytes(facts.SegmentBytes), units.Bytes(facts.LogFileBytes), len(facts.Namespaces))
		})
	for _, ns := range facts.Namespaces {
		in.show(inspectNamespace{"namespace", in.path, ns}, func() string {
			quota := "none"
			if ns.QuotaBytes > 0 {
				quota = units.Bytes(ns.QuotaBytes)
			}
			return fmt.Sprintf("  namespace %d %q: incarnation %d, quota %s, blocks of %d bytes, ID %s", ns.Number, ns.Descriptor.Name, ns.Incarnation,
				quota, ns.Descriptor.BlockBytes, ns.ID)
		})
	}
	return nil
}

func (in *inspection) segment(f *os.File, sizeBytes int64) error {
	head := make([]byte, engine.SegmentHeaderBytes)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		in.flaw(0, "the header cannot be read: "+err.Error(), true)
	}
	mirror, err := xattr.FGet(f, engine.SegmentAttr)
	if err != nil {
		mirror = nil // absent, or no such thing on this file system
	}
	number, _ := engine.SegmentNumber(filepath.Base(in.path))
	facts := engine.InspectSegment(head[:n], mirror, sizeBytes, number)
	for _, flaw := range facts.Flaws {
		in.flaw(flaw.Offset, flaw.Text, flaw.Damage)
	}
	has := map[bool]string{true: "present", false: "absent"}[mirror != nil]
	in.show(inspectSegment{"segment", in.path, facts, has}, func() string {
		source := map[string]string{"header": "", "mirror": " (from the mirror)", "none": " (not proven)"}[facts.Source]
		return fmt.Sprintf("  segment %d%s: version %d, store %s, namespace %d.%d (%.12s), %d slots of %d bytes for blocks of %d, made after position %d, mirror %s",
			facts.Number, source, facts.Version, facts.StoreID, facts.Namespace, facts.Incarnation, facts.NamespaceID,
			facts.Slots, facts.SlotBytes, facts.BlockBytes, facts.CreatedAfter, has)
	})
	if facts.Source == "none" {
		return nil
	}
	for page := range engine.InspectDirectory(f, sizeBytes, &facts) {
		if !in.directoryPage(&page) {
			break
		}
	}
	return nil
}

func (in *inspection) directoryPage(p *engine.DirectoryPage) bool {
	if p.Flaw != nil {
		in.flaw(p.Flaw.Offset, p.Flaw.Text, p.Flaw.Damage)
	}
	if p.Flaw != nil && len(p.Entries) == 0 {
		return in.err == nil
	}
	going := in.show(inspectPage{"directory page", in.path, p.Offset, p.Page, p.Incarnation, p.Position, len(p.Entries)}, func() string {
		return fmt.Sprintf("  %10d  directory page %d: %d entries, incarnation %d, begun at position %d", p.Offset, p.Page, len(p.Entries), p.Incarnation, p.Position)
	})
	for _, e := range p.Entries {
		key := ""
		if len(e.Key) > 0 {
			key = showKey(e.Key)
		}
		going = going && in.show(inspectPageEntry{"directory entry", in.path, e, key}, func() string {
			return fmt.Sprintf("              position %d, %v, key %s", e.Position, &e.PutFacts, key)
		})
	}
	return going
}

func (in *inspection) logFile(f *os.File, sizeBytes int64) error {
	number, _ := wal.FileNumber(filepath.Base(in.path))
	for s := range wal.Inspect(f, sizeBytes, number) {
		if !in.sighting(&s) {
			break
		}
	}
	return nil
}

func (in *inspection) sighting(s *wal.Sighting) bool {
	cause := ""
	if s.Cause != nil {
		cause = s.Cause.Error()
	}
	switch s.Sight {
	case wal.SightHeader:
		h := s.Header
		return in.show(inspectLogHeader{"log header", in.path, h.Version, fmt.Sprintf("%x", h.StoreID), h.Number, uint64(h.First), cause}, func() string {
			return note(fmt.Sprintf("  %10d  header: version %d, store %x, log number %d, first position %d", s.Offset, h.Version, h.StoreID, h.Number, h.First), cause)
		})
	case wal.SightNoHeader, wal.SightGap, wal.SightTail, wal.SightCut:
		if s.Gap != nil {
			cause += ": " + s.Gap.Cause.Error()
			if s.Gap.BarrierLost {
				cause += "; a deletion may be among them"
			}
		}
		in.flaw(s.Offset, string(s.Sight)+": "+cause, s.Damage)
		return in.err == nil
	}
	if s.Damage {
		in.flaw(s.Offset, string(s.Sight)+": "+cause, true)
	}
	line := inspectPlace{Type: "log place", File: in.path, Offset: s.Offset, Bytes: s.Bytes, Sight: string(s.Sight), Note: cause}
	if h := s.Frame; h != nil {
		line.Number, line.First, line.Last, line.Synced, line.DataSynced, line.Barrier = h.Number, uint64(h.First), uint64(h.Last), uint64(h.Synced), uint64(h.DataSynced), uint64(h.Barrier)
		line.StoreID = fmt.Sprintf("%x", h.StoreID)
	}
	going := in.show(line, func() string { return note(placeText(s), cause) })
	for i, payload := range s.Payloads {
		if !going {
			return false
		}
		going = in.record(s.Frame.First+wal.Position(i), payload, s.Offset)
	}
	return going
}

func note(text, cause string) string {
	if cause == "" {
		return text
	}
	return text + "; " + cause
}

func placeText(s *wal.Sighting) string {
	if s.Frame == nil {
		return fmt.Sprintf("  %10d  %s, %d bytes", s.Offset, s.Sight, s.Bytes)
	}
	h := s.Frame
	return fmt.Sprintf("  %10d  %s, %d bytes, log number %d, records %d..%d, synced %d, data synced %d, barrier %d", s.Offset, s.Sight, s.Bytes,
		h.Number, h.First, h.Last, h.Synced, h.DataSynced, h.Barrier)
}

func (in *inspection) record(p wal.Position, payload []byte, offset int64) bool {
	r, err := engine.InspectRecord(payload)
	if err != nil {
		in.flaw(offset, fmt.Sprintf("record %d: %v", p, err), true)
		return in.err == nil
	}
	line := inspectRecord{"log record", in.path, uint64(p), r, ""}
	if r.Put != nil {
		line.Key = showKey(r.Put.Key)
	}
	return in.show(line, func() string {
		text := fmt.Sprintf("              record %d: %v", p, r)
		if line.Key != "" {
			text += ", key " + line.Key
		}
		return text
	})
}

func (in *inspection) index() error {
	store := filepath.Dir(filepath.Clean(in.path))
	if holder, held, err := device.Holder(store); err == nil && held {
		return &failure{code: exitError, message: fmt.Sprintf("index %s belongs to a store in use by %s, which holds %s", in.path, holder, filepath.Join(store, lockFileName)),
			remedy: "its files change while they are read: end that process first; spillway ls lists the blocks", cause: engine.ErrInUse}
	}
	return engine.InspectIndex(in.path, func(it engine.IndexItem) bool {
		if it.Cause != nil {
			in.flaw(0, it.Cause.Error(), true)
			return in.err == nil
		}
		line := inspectIndexEntry{"index entry", in.path, it, ""}
		if it.Put != nil {
			line.Key = showKey(it.Put.Key)
		}
		return in.show(line, func() string { return indexText(&it, line.Key) })
	})
}

func indexText(it *engine.IndexItem, key string) string {
	switch it.Kind {
	case "block":
		return fmt.Sprintf("  block of namespace %d.%d, position %d, %v, key %s", it.Namespace, it.Incarnation, it.Position, it.Put, key)
	case "quarantine":
		return "  quarantine " + it.Place
	case "suspect":
		return fmt.Sprintf("  suspect: positions %d to %d were unsynced at an unclean stop", it.From+1, it.To)
	}
	return fmt.Sprintf("  %s up to position %d", it.Kind, it.Position)
}

func (in *inspection) deletions(f *os.File, sizeBytes int64) error {
	const pageBytesMax = 4096
	b, err := io.ReadAll(io.LimitReader(f, min(sizeBytes, pageBytesMax+1)))
	if err != nil {
		return err
	}
	facts := engine.InspectDeletions(b)
	for _, flaw := range facts.Flaws {
		in.flaw(flaw.Offset, flaw.Text, flaw.Damage)
	}
	in.show(inspectDeletions{"deletions", in.path, facts.Version, facts.StoreID, facts.Position}, func() string {
		return fmt.Sprintf("  version %d, store %s, newest deletion at position %d", facts.Version, facts.StoreID, facts.Position)
	})
	return nil
}

// ballast holds nothing to show: its size is said already.
func (in *inspection) ballast(*os.File, int64) error { return nil }

func (in *inspection) lockFile(f *os.File, _ int64) error {
	const holderBytesMax = 256
	text, err := io.ReadAll(io.LimitReader(f, holderBytesMax))
	if err != nil {
		return err
	}
	_, held, err := device.Holder(filepath.Dir(in.path))
	if err != nil {
		return err
	}
	line := inspectLock{"lock", in.path, strings.TrimSpace(strings.ToValidUTF8(string(text), "?")), held}
	in.show(line, func() string {
		switch {
		case held:
			return "  held by " + line.Holder
		case line.Holder == "":
			return "  held by nobody"
		}
		return "  held by nobody; the last holder was " + line.Holder
	})
	return nil
}
