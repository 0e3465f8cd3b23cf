package engine

import at "sync/atomic"

func load() int64 { return at.LoadInt64(&plain) }
