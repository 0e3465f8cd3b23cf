package main

import (
	"fmt"
	"strings"
	"testing"
)

// yamlReader reads the part of YAML that our manifests are written in: maps, lists, flow
// lists and maps of scalars, quoted and plain scalars, and literal blocks. Anything else
// is an error, so that nothing is misread. Scalars are strings.
type yamlReader struct {
	lines []string
	at    int
}

// readYAML reads all documents of a text.
func readYAML(t *testing.T, text string) (documents []map[string]any) {
	t.Helper()
	for i, part := range strings.Split("\n"+text, "\n---\n") {
		r := &yamlReader{lines: strings.Split(part, "\n")}
		v, err := r.block(0)
		if _, left := r.peek(); err == nil && left {
			err = fmt.Errorf("line %d is not understood: %q", r.at+1, r.lines[r.at])
		}
		m, ok := v.(map[string]any)
		if err != nil || !ok {
			t.Fatalf("document %d: %v, %T", i+1, err, v)
		}
		documents = append(documents, m)
	}
	return documents
}

// peek skips what says nothing and gives the indent of the next line.
func (r *yamlReader) peek() (indent int, ok bool) {
	for ; r.at < len(r.lines); r.at++ {
		line := strings.TrimLeft(r.lines[r.at], " ")
		if line != "" && line[0] != '#' {
			return len(r.lines[r.at]) - len(line), true
		}
	}
	return 0, false
}

// block reads a map or a list whose lines are indented by at least so much.
func (r *yamlReader) block(least int) (any, error) {
	indent, ok := r.peek()
	if !ok || indent < least {
		return "", nil
	}
	if strings.HasPrefix(r.lines[r.at][indent:], "- ") {
		return r.list(indent)
	}
	return r.object(indent)
}

func (r *yamlReader) list(indent int) (any, error) {
	var all []any
	for {
		next, ok := r.peek()
		if !ok || next != indent || !strings.HasPrefix(r.lines[r.at][indent:], "- ") {
			return all, nil
		}
		line := r.lines[r.at]
		item := strings.TrimLeft(line[indent+2:], " ")
		if key, _, isMap := cutKey(item); isMap && key != "" && item[0] != '{' && item[0] != '[' {
			inner := len(line) - len(item)
			r.lines[r.at] = strings.Repeat(" ", inner) + item
			v, err := r.object(inner)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
			continue
		}
		v, err := flow(item)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", r.at+1, err)
		}
		all = append(all, v)
		r.at++
	}
}

func (r *yamlReader) object(indent int) (any, error) {
	m := map[string]any{}
	for {
		next, ok := r.peek()
		if !ok || next < indent || strings.HasPrefix(r.lines[r.at][next:], "- ") {
			return m, nil
		}
		key, value, isKey := cutKey(r.lines[r.at][indent:])
		if next > indent || !isKey || m[key] != nil || strings.Contains(r.lines[r.at], "\t") {
			return nil, fmt.Errorf("line %d is not understood, or its key comes twice: %q", r.at+1, r.lines[r.at])
		}
		number := r.at + 1
		r.at++
		var err error
		switch value {
		case "":
			// A list may stand as far left as its key.
			least := indent + 1
			if n, more := r.peek(); more && n == indent && strings.HasPrefix(r.lines[r.at][n:], "- ") {
				least = indent
			}
			m[key], err = r.block(least)
		case "|":
			m[key] = r.literal(indent)
		default:
			if m[key], err = flow(value); err != nil {
				err = fmt.Errorf("line %d: %w", number, err)
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// literal reads lines as they are.
func (r *yamlReader) literal(outer int) string {
	var b strings.Builder
	inner := -1
	for ; r.at < len(r.lines); r.at++ {
		line := r.lines[r.at]
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if strings.TrimSpace(line) == "" {
			b.WriteString("\n")
			continue
		}
		if indent <= outer {
			break
		}
		if inner < 0 {
			inner = indent
		}
		b.WriteString(line[inner:] + "\n")
	}
	return b.String()
}

// cutKey takes a line's key and what follows it, without a comment.
func cutKey(line string) (key, value string, ok bool) {
	key, value, ok = strings.Cut(line, ":")
	if !ok || value != "" && value[0] != ' ' || strings.ContainsAny(key, "{}[]\"' ") {
		return "", "", false
	}
	return key, uncomment(strings.TrimSpace(value)), true
}

func uncomment(value string) string {
	if strings.HasPrefix(value, "#") {
		return ""
	}
	if i := strings.Index(value, " #"); i >= 0 && !strings.ContainsAny(value[i:], `"'`) {
		return strings.TrimSpace(value[:i])
	}
	return value
}

// flow reads a scalar, or a list or map of scalars on one line.
func flow(text string) (any, error) {
	text = uncomment(strings.TrimSpace(text))
	inside := func() []string { return strings.Split(text[1:len(text)-1], ", ") }
	switch {
	case text == "{}":
		return map[string]any{}, nil
	case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
		var all []any
		for _, part := range inside() {
			v, err := flow(part)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	case strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}"):
		m := map[string]any{}
		for _, part := range inside() {
			key, value, ok := cutKey(part)
			v, err := flow(value)
			if err != nil || !ok || m[key] != nil {
				return nil, fmt.Errorf("%q is not understood", text)
			}
			m[key] = v
		}
		return m, nil
	case len(text) > 1 && text[0] == '"' && strings.HasSuffix(text, `"`) && !strings.ContainsAny(text[1:len(text)-1], `"\`):
		return text[1 : len(text)-1], nil
	case text == "" || strings.ContainsAny(text[:1], `"'{}[]&*!|>%@`+"`") || strings.Contains(text, ": "):
		return nil, fmt.Errorf("%q is not understood", text)
	}
	return text, nil
}

// at finds a value in what readYAML gave: keys, and indices of lists as #0.
func at(t *testing.T, v any, path ...string) any {
	t.Helper()
	for _, key := range path {
		switch is := v.(type) {
		case map[string]any:
			v = is[key]
		case []any:
			var i int
			if _, err := fmt.Sscanf(key, "#%d", &i); err != nil || i >= len(is) {
				t.Fatalf("no %q in %v", key, path)
			}
			v = is[i]
		default:
			v = nil
		}
		if v == nil {
			t.Fatalf("no %q in %v", key, path)
		}
	}
	return v
}
