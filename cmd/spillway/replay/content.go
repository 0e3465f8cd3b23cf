package replay

import "github.com/spillway-kv/spillway/fio/payload"

// ContentName names the way a block's bytes derive from its id. It is part of
// the namespace's descriptor, so that another way never meets these bytes.
const ContentName = "splitmix64-v1"

const golden = 0x9e3779b97f4a7c15

// start is where the stream of an id begins.
func start(id uint64) uint64 { return payload.Mix(id*golden + golden) }

// Fill writes the content of block id into dst.
func Fill(dst []byte, id uint64) { payload.Stream(dst, start(id)) }

// Equal says whether b is exactly the content of block id.
func Equal(b []byte, id uint64) bool { return payload.StreamEqual(b, start(id)) }
