package wal

import (
	_ "github.com/spillway-kv/spillway/engine/device/devicetest"
	_ "github.com/spillway-kv/spillway/tiering"
)
