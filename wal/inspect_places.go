package wal

import (
	"errors"
	"fmt"
)

// What Inspect says of a first unit that is no header.
var (
	errHeader      = errors.New("the first unit is no sound header: damaged, or torn while the file came into use")
	errBlankHeader = errors.New("the first unit is zeros: the file was never in use, or lost its header")
)

var sightOf = map[seen]Sight{seenFrame: SightFrame, seenRecycled: SightLeftover, seenAlien: SightForeign, seenBroken: SightBroken,
	seenMisplaced: SightMisplaced, seenUnreadable: SightUnreadable, seenBlank: SightRest}

// survey lists the places behind the header and judges them as recovery would
// if this were the only file.
func (in *inspector) survey() {
	items := []item{}
	if in.sound && in.first != 0 {
		items = append(items, item{seen: seenFileStart, first: in.first, synced: in.first - 1})
	}
	for offset := int64(unitBytes); offset < in.r.size; {
		p := in.look(offset)
		offset += p.bytes
		if n := len(in.places) - 1; n >= 0 && mergeable(p.sight) && in.places[n].sight == p.sight {
			in.places[n].bytes += p.bytes
			continue
		}
		in.places = append(in.places, p)
		if p.seen != seenBlank && p.seen != seenRecycled && p.seen != seenAlien {
			items = append(items, p.item)
		}
	}
	in.judge(items)
}

// mergeable sights say no more apart than together.
func mergeable(s Sight) bool { return s == SightEmpty || s == SightRest || s == SightUnreadable }

// look classifies the place at offset.
func (in *inspector) look(offset int64) stretch {
	it, length, err := in.s.examine(in.r, in.number, offset)
	if err != nil { // cannot be: the reader's bytes can always be asked for
		it = item{seen: seenUnreadable, offset: offset, cause: err}
		length = unitBytes
	}
	p := stretch{item: it, sight: sightOf[it.seen], bytes: int64(length)}
	if it.seen == seenBlank {
		if unit, err := in.view(offset, unitBytes); err == nil && allZero(unit) {
			p.sight = SightEmpty
		}
	}
	if it.seen == seenRecycled || it.seen == seenAlien {
		var h frameHeader
		if unit, err := in.view(offset, unitBytes); err == nil && h.parse(unit) {
			if cause, err := in.s.prove(in.r, &h, offset); cause == nil && err == nil {
				p.bytes = int64(frameBytes(int(h.payloadBytes)))
			}
		}
	}
	return p
}

// judge runs recovery's decision and files its gaps and its end by offset.
func (in *inspector) judge(items []item) {
	from := in.first
	for i := range items {
		if from == 0 && items[i].seen == seenFrame {
			from = items[i].fileFirst
		}
	}
	if from == 0 {
		return // nothing of this file's own is live
	}
	damaged := func(it *item) error {
		cause := it.cause
		if cause == nil {
			cause = errMissing
		}
		return &CorruptError{Offset: it.offset, Cause: cause}
	}
	r := judge(items, from-1, damaged)
	for i := range r.gaps {
		gap := &r.gaps[i]
		offset := int64(unitBytes)
		if c, ok := errors.AsType[*CorruptError](gap.Cause); ok {
			offset = c.Offset
			gap.Cause = c.Cause
		}
		in.file(Sighting{Sight: SightGap, Offset: offset, Gap: gap, Damage: true,
			Cause: fmt.Errorf("records %d to %d had been on stable media and are lost", gap.After+1, gap.Before-1)})
	}
	if r.tail != TailClean && r.tailAt >= 0 {
		in.file(Sighting{Sight: SightTail, Offset: items[r.tailAt].offset,
			Cause: fmt.Errorf("the log ends here at record %d, %v: normal after a crash, and in a file being written", r.last, r.tail)})
	}
}

func (in *inspector) file(s Sighting) { in.judged[s.Offset] = append(in.judged[s.Offset], s) }

// sighting reads a place once more and shows it.
func (in *inspector) sighting(p *stretch) Sighting {
	found := Sighting{Sight: p.sight, Offset: p.offset, Bytes: p.bytes, Cause: p.cause}
	if p.sight == SightUnreadable {
		found.Damage = true
		return found
	}
	unit, err := in.view(p.offset, unitBytes)
	if err != nil {
		found.Cause = err
		return found
	}
	var h frameHeader
	if mergeable(p.sight) || !h.parse(unit) {
		return found
	}
	found.Frame = &FrameFacts{Number: h.number, Offset: h.offset, FileFirst: h.fileFirst, First: h.first, Last: h.last(), Records: h.count,
		PayloadBytes: h.payloadBytes, Synced: h.synced, DataSynced: h.dataSynced, Barrier: h.barrier, StoreID: h.storeID}
	if p.sight != SightFrame {
		return found
	}
	if cause, err := in.s.prove(in.r, &h, p.offset); cause != nil || err != nil {
		found.Sight, found.Cause = SightBroken, errors.Join(errChanged, cause, err)
		return found
	}
	frame, err := in.view(p.offset, frameBytes(int(h.payloadBytes)))
	if err != nil {
		found.Cause = err
		return found
	}
	for rest := frame[frameHeaderBytes : frameHeaderBytes+int(h.payloadBytes)]; len(rest) > 0; {
		var payload []byte
		payload, rest = cutRecord(rest)
		found.Payloads = append(found.Payloads, payload)
	}
	return found
}
