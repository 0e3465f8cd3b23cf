package admit

import "time"

// Rate measures how fast a drive or a peer takes transfers of a kind: bytes over the time in
// which some were running, older ones counting less. Its
// zero value is ready; it belongs to one goroutine at a time.
type Rate struct {
	since   time.Time // of the newest end or beginning
	bytes   float64
	seconds float64
}

const (
	// rateMemory is after how many seconds of work a measurement counts half.
	rateMemory = 5
	// rateBytesMin is how much must have been moved before the rate means something.
	rateBytesMin = 16 << 20
)

// Began notes that transfers run from now on, where none ran.
func (r *Rate) Began(now time.Time) { r.since = now }

// Ended counts bytes whose transfer has ended.
func (r *Rate) Ended(now time.Time, bytes int64) {
	r.bytes += float64(bytes)
	r.seconds += now.Sub(r.since).Seconds()
	r.since = now
	if r.seconds > 2*rateMemory {
		r.bytes, r.seconds = r.bytes/2, r.seconds/2
	}
}

// TimeFor is how long so many bytes take at the measured rate; 0 while it is not
// known.
func (r *Rate) TimeFor(bytes int64) time.Duration {
	if r.bytes < rateBytesMin || r.seconds <= 0 {
		return 0
	}
	return time.Duration(float64(bytes) / r.bytes * r.seconds * float64(time.Second))
}
