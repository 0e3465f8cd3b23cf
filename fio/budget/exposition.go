package budget

import (
	"fmt"
	"strconv"
	"strings"
)

// sample is one line of an exposition: a series and its value.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// exposition reads the text format of Prometheus: the lines of metrics whose name keep
// wants. Lines of others are not looked at, so that their faults do no harm.
func exposition(text string, keep func(name string) bool) (all []sample, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		end := strings.IndexAny(line, "{ \t")
		if line == "" || line[0] == '#' || end < 0 || !keep(line[:end]) {
			continue
		}
		s := sample{name: line[:end]}
		rest := line[end:]
		if rest[0] == '{' {
			if s.labels, rest, err = labels(rest[1:]); err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
		}
		fields := strings.Fields(rest) // a value, perhaps a time or an exemplar
		if len(fields) == 0 {
			return nil, fmt.Errorf("line %d: %s has no value", number, s.name)
		}
		if s.value, err = strconv.ParseFloat(fields[0], 64); err != nil {
			return nil, fmt.Errorf("line %d: %s has the value %.20q", number, s.name, fields[0])
		}
		all = append(all, s)
	}
	return all, nil
}

// labels reads name="value",... up to the closing brace; \\, \" and \n are escaped
// in values.
func labels(text string) (found map[string]string, rest string, err error) {
	found = map[string]string{}
	for {
		text = strings.TrimLeft(text, " \t,")
		if strings.HasPrefix(text, "}") {
			return found, text[1:], nil
		}
		name, value, ok := strings.Cut(text, "=")
		value = strings.TrimLeft(value, " \t")
		if !ok || !strings.HasPrefix(value, `"`) {
			return nil, "", fmt.Errorf("labels that do not end: %.40q", text)
		}
		end := closingQuote(value)
		if end < 0 {
			return nil, "", fmt.Errorf("a label's value that does not end: %.40q", value)
		}
		found[strings.TrimSpace(name)] = unescape.Replace(value[1:end])
		text = value[end+1:]
	}
}

var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")

// closingQuote is where the quote that opens text is closed; -1: nowhere.
func closingQuote(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}
