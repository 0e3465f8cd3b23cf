// Command init is the first process of a virtual machine of package vm: it mounts what
// programs expect, loads the modules, runs the set-up, and then does what the host orders.
// "init limited" starts a program with less rights than it has itself.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "limited" {
		fmt.Fprintln(os.Stderr, limited(os.Args[2:]))
		os.Exit(127)
	}
	fmt.Println("init:", run())
	powerOff()
}
