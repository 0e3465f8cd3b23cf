package main

import "os"

func run() int {
	os.Exit(2)
	return 0
}
