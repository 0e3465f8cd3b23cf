package job

// nearest is the word closest to text: the fewest letters added, taken away,
// changed or swapped with their neighbour, at most half of them. Empty if none is
// that close. Of equals the first wins.
func nearest(text string, words []string) string {
	best, fewest := "", len(text)/2+1
	for _, w := range words {
		if d := distance(text, w); d < fewest {
			best, fewest = w, d
		}
	}
	return best
}

// distance is the optimal string alignment distance, by bytes.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var rows [3][longest + 1]int // of the last three prefixes of a
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		now, before := &rows[i%3], &rows[(i+2)%3]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			changed := before[j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			now[j] = min(changed, before[j]+1, now[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], rows[(i+1)%3][j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}
