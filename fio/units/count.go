package units

import "strconv"

// Count writes a number of things: "1 store", "2 stores". The noun is one whose plural ends
// in s.
func Count(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(n, 10) + " " + noun
}
