package engine

import "os"

func victim() { os.Exit(1) }
