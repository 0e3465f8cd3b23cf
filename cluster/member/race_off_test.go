//go:build !race

package member

// raceDetector is whether the race detector runs: everything is ten times as slow then.
const raceDetector = false
