package table

import (
	_ "github.com/spillway-kv/spillway/engine/evict"
	_ "github.com/spillway-kv/spillway/engine/offheap"
)
