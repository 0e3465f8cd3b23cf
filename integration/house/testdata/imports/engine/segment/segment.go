package segment

import (
	_ "github.com/spillway-kv/spillway/cmd/spillway/plan"
	_ "github.com/spillway-kv/spillway/engine/device"
	_ "github.com/spillway-kv/spillway/wal"
)
