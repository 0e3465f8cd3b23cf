package main

import (
	_ "github.com/spillway-kv/spillway/cmd/spillway/plan"
	_ "github.com/spillway-kv/spillway/fio"
)
