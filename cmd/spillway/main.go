// Command spillway is the benchmark and the operator's tool of the store. See
// cli.go for its commands and exit.go for its exit codes.
package main

import "os"

func main() { os.Exit(int(run(processState()))) }
