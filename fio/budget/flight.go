package budget

import "time"

// InFlight is how many bytes a drive can owe at once and still deliver each within a
// token, by Little's law: its rate, in bytes a second, times the budget. It is an
// estimate: as if the drive kept its rate at any depth and delivered evenly.
func InFlight(bytesPerSecond float64, perToken time.Duration) int64 {
	return int64(bytesPerSecond * perToken.Seconds())
}
