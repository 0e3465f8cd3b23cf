// Package sim is a device in memory, with seeded faults, for tests.
//
// A Disk is the medium: it outlives processes and power cuts. A session (what
// Disk.Open returns) is one process that has it mounted; there is at most one
// at a time. A session ends by Close, by Disk.Kill (the process dies) or by
// Disk.PowerCut (the machine dies).
//
// What the medium remembers:
//
//   - A write lands, sector by sector, at the moment the op ends. It survives
//     Kill. Until a Sync of that file, submitted after the write had ended,
//     succeeds, a power cut may keep it, lose it, or keep some of its sectors.
//     At most undoMaxBytes of a file are that uncertain, the oldest first
//     become durable on their own.
//   - A creation, removal or rename survives Kill at once and a power cut after
//     SyncDir; before that each of them is kept or lost on its own. A file whose
//     creation was kept may be empty, if neither SyncDir nor a Sync of it came
//     after the creation.
//   - WriteFile is durable and whole when it returns.
//   - An attribute is durable after the next Sync of its file or the next
//     SyncDir.
//
// Time is the time package's, and nothing depends on the wall clock: in a
// testing/synctest bubble a device with latency is instant. Every random
// decision about an op is drawn when it is submitted, in the order of the
// submissions, so that a seed replays as far as the scheduling of goroutines
// allows.
//
// Locking: one mutex per Disk guards the medium, the plan and the session's
// queue. Bytes move under it, so that after Kill has returned nothing of the
// old session touches the medium or any buffer. No callback but Plan.Filter
// runs under it.
package sim
