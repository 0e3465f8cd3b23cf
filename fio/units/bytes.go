// Package units writes quantities for people.
package units

import "fmt"

// Bytes writes n by 1024: 512 B, 1.5 KiB, 2 GiB; at most four digits.
func Bytes(n int64) string {
	const prefixes = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	value, i := float64(n)/1024, 0
	for value >= 1024 && i < len(prefixes)-1 {
		value /= 1024
		i++
	}
	return fmt.Sprintf("%.4g %ciB", value, prefixes[i])
}
