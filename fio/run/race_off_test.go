//go:build !race

package run

const raceDetector = false
