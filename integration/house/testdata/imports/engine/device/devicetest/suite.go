package devicetest

import _ "github.com/spillway-kv/spillway/engine/device"
