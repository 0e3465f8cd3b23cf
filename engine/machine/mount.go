package machine

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Mount is a line of mountinfo.
type Mount struct {
	Device  string // major:minor
	Point   string
	Type    string
	Source  string
	Options []string // of the mount and of its file system
}

// Has reports whether an option is set.
func (m Mount) Has(option string) bool { return slices.Contains(m.Options, option) }

// MountOf finds the mount that path, absolute and without links, lies on: of those
// whose mount point is above it, the longest, and of equals the last.
func (s System) MountOf(path string) Mount {
	var best Mount
	for line := range strings.Lines(s.Text("proc/self/mountinfo")) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		point := unescape(l[4])
		if !above(point, path) || len(point) < len(best.Point) {
			continue
		}
		best = Mount{Device: l[2], Point: point, Type: r[0], Source: unescape(r[1]),
			Options: append(strings.Split(l[5], ","), strings.Split(r[2], ",")...)}
	}
	return best
}

func above(point, path string) bool {
	return point == path || strings.HasPrefix(path, strings.TrimSuffix(point, "/")+"/")
}

var octal = regexp.MustCompile(`\\[0-7]{3}`)

// unescape undoes the octal escapes of mountinfo.
func unescape(text string) string {
	return octal.ReplaceAllStringFunc(text, func(code string) string {
		n, _ := strconv.ParseUint(code[1:], 8, 8)
		return string([]byte{byte(n)})
	})
}
