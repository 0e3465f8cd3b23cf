package device

import (
	"os"

	_ "github.com/spillway-kv/spillway/engine"
	_ "github.com/spillway-kv/spillway/engine/planted"
)
