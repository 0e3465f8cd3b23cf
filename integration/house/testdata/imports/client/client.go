package client

import (
	_ "github.com/spillway-kv/spillway/cluster/node"
	_ "github.com/spillway-kv/spillway/cluster/wire"
)
