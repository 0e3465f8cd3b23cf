// Package result holds what a fio run says: what its workers measured, as fio's
// JSON, JSON+ and normal text, with fio's names, units and percentiles.
//
// A worker measures with a Recorder, a Run merges the recorders into a Document,
// and a Document is written as JSON or text, read back, or drawn. A Document can
// be read from real fio's output too.
//
// Where it leaves fio's habits: percentiles lie within min..max (fio prints the
// midpoint of a bucket, which may lie outside); what nobody measured is null (fio
// prints 0); with open-loop load lat_ns runs from the intended start; and what fio
// does not have is under the one key "spillway", of the document and of each job.
package result
