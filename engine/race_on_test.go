//go:build race

package engine_test

// raced says that the race detector is on, under which moving many bytes takes
// minutes. What has no two goroutines to race is left to the ordinary run.
const raced = true
