package wal

// The decisions of recovery, as the tables of docs/format/wal.md. Each question
// is a set of facts; each row names, for every fact, the values that it covers;
// exactly one row covers a set of facts, or the set is impossible. The tests
// walk all of them.

// yesNo is the set of values of a boolean fact that a row covers.
type yesNo uint8

const (
	no     yesNo = 1
	yes    yesNo = 2
	either yesNo = no | yes
)

func (s yesNo) covers(fact bool) bool {
	if fact {
		return s&yes != 0
	}
	return s&no != 0
}

// seen is what lies at one place of a file.
type seen uint8

const (
	seenFrame      seen = iota // a proven live frame
	seenFileStart              // the sound header of a file
	seenAlien                  // a frame of another store
	seenRecycled               // a frame of the file's earlier life
	seenBlank                  // nothing that looks like a frame
	seenMisplaced              // a live frame written for another place
	seenBroken                 // a live frame that fails its checksum
	seenUnreadable             // the device gives an error
	seenCount
)

// placeFacts are the facts of one unit at which a frame may begin. Facts behind
// the first false one are not looked at, except offset, which is free.
type placeFacts struct{ readable, magic, store, number, offset, sound bool }

var placeTable = []struct {
	readable, magic, store, number, offset, sound yesNo
	seen                                          seen
}{
	{no, no, no, no, no, no, seenUnreadable},
	{yes, no, no, no, no, no, seenBlank},
	{yes, yes, no, no, either, no, seenAlien},
	{yes, yes, yes, no, either, no, seenRecycled},
	{yes, yes, yes, yes, no, no, seenMisplaced},
	{yes, yes, yes, yes, yes, no, seenBroken},
	{yes, yes, yes, yes, yes, yes, seenFrame},
}

// look answers what the facts of a place mean. Facts that contradict each other
// are a programmer error.
func look(f placeFacts) seen {
	for _, r := range placeTable {
		if r.readable.covers(f.readable) && r.magic.covers(f.magic) && r.store.covers(f.store) &&
			r.number.covers(f.number) && r.offset.covers(f.offset) && r.sound.covers(f.sound) {
			return r.seen
		}
	}
	panic("wal: impossible facts of a place")
}

// order compares the first position of what is seen with the expected one.
type order uint8

const (
	orderNone     order = 1 << iota // what is seen has no position
	orderBehind                     // its records are known
	orderExpected                   // nothing is missing before it
	orderAhead                      // records are missing before it
	orderAny      = orderNone | orderBehind | orderExpected | orderAhead
)

// hole says what the live frames and headers at and behind a place tell about
// the records that are missing there.
type hole uint8

const (
	holeEnd      hole = 1 << iota // nothing live lies behind
	holeNone                      // what lies behind leaves nothing missing
	holeUnsynced                  // nobody was promised the missing records
	holePartly                    // the first of them were promised, the rest not
	holeSynced                    // all of them were promised
	holeAny      = holeEnd | holeNone | holeUnsynced | holePartly | holeSynced
)

// verdict is what recovery does at one place.
type verdict uint8

const (
	verdictApply         verdict = iota + 1 // replay the records
	verdictSkip                             // the index has them
	verdictMoveOn                           // nothing is missing here
	verdictEndOfLog                         // clean end
	verdictTornTail                         // end in a torn or damaged place
	verdictUnsyncedTail                     // end before a hole that nobody was promised
	verdictDamage                           // report a gap, go on behind it
	verdictDamageThenEnd                    // report the promised part of the hole as a gap, end
)

// set is a set of seen values.
func set(values ...seen) (s uint16) {
	for _, v := range values {
		s |= 1 << v
	}
	return s
}

var (
	frames  = set(seenFrame)
	starts  = set(seenFileStart)
	remains = set(seenMisplaced, seenBroken, seenUnreadable)
	nothing = set(seenAlien, seenRecycled, seenBlank)
)

var verdictTable = []struct {
	seen    uint16
	order   order
	hole    hole
	verdict verdict
}{
	{frames, orderExpected, holeAny, verdictApply},
	{frames, orderBehind, holeAny, verdictSkip},
	{starts, orderExpected | orderBehind, holeAny, verdictMoveOn},
	{frames | starts, orderAhead, holeSynced, verdictDamage},
	{frames, orderAhead, holePartly, verdictDamageThenEnd},
	{frames, orderAhead, holeUnsynced, verdictUnsyncedTail},
	{remains | nothing, orderNone, holeNone, verdictMoveOn},
	{remains | nothing, orderNone, holeSynced, verdictDamage},
	{remains | nothing, orderNone, holePartly, verdictDamageThenEnd},
	{remains | nothing, orderNone, holeUnsynced, verdictUnsyncedTail},
	{remains, orderNone, holeEnd, verdictTornTail},
	{nothing, orderNone, holeEnd, verdictEndOfLog},
}

// decide answers what to do at a place. Facts that contradict each other are a
// programmer error.
func decide(s seen, o order, h hole) verdict {
	for _, r := range verdictTable {
		if r.seen&(1<<s) != 0 && r.order&o != 0 && r.hole&h != 0 {
			return r.verdict
		}
	}
	panic("wal: impossible facts of a decision")
}

// headerState is what the first unit of a file means.
type headerState uint8

const (
	headerNone    headerState = iota // never written, torn, damaged or unreadable
	headerSound                      // of this file
	headerSpare                      // of the file's earlier life
	headerForeign                    // of another store
	headerVersion                    // of another format version
)

// headerFacts are the facts of the first unit. Facts behind the first false one
// are free: a sound header has all its fields.
type headerFacts struct{ readable, sound, version, store, number bool }

var headerTable = []struct {
	readable, sound, version, store, number yesNo
	state                                   headerState
}{
	{no, no, no, no, no, headerNone},
	{yes, no, no, no, no, headerNone},
	{yes, yes, no, either, either, headerVersion},
	{yes, yes, yes, no, either, headerForeign},
	{yes, yes, yes, yes, no, headerSpare},
	{yes, yes, yes, yes, yes, headerSound},
}

// judgeHeader answers what the facts of a header mean.
func judgeHeader(f headerFacts) headerState {
	for _, r := range headerTable {
		if r.readable.covers(f.readable) && r.sound.covers(f.sound) && r.version.covers(f.version) &&
			r.store.covers(f.store) && r.number.covers(f.number) {
			return r.state
		}
	}
	panic("wal: impossible facts of a header")
}
