// Command spillway is a sample.
package main

func Exported() {}
