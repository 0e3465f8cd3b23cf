package wal

import (
	_ "github.com/spillway-kv/spillway/engine"
	_ "github.com/spillway-kv/spillway/engine/device/devicetest"
	_ "github.com/spillway-kv/spillway/engine/device/sim"
	_ "github.com/spillway-kv/spillway/fio"
)
