package engine

import "sync/atomic"

var plain int64
var typed atomic.Int64
var pointer atomic.Pointer[int]

func add() {
	atomic.AddInt64(&plain, 1)
	typed.Add(1)
}
