package node

import (
	_ "github.com/spillway-kv/spillway/engine"
	_ "github.com/spillway-kv/spillway/tiering/gpu"
	_ "github.com/spillway-kv/spillway/wal"
)
