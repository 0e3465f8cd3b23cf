package fio

import (
	_ "github.com/spillway-kv/spillway/client"
	_ "github.com/spillway-kv/spillway/engine/device"
)
