package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// WriteJSON writes the document in fio's layout; plus keeps the bins (JSON+).
func (d *Document) WriteJSON(w io.Writer, plus bool) error {
	if !plus {
		d = d.withoutBins()
	}
	var compact bytes.Buffer
	if err := plain(&compact, d); err != nil {
		return fmt.Errorf("result as JSON: %w", err)
	}
	_, err := w.Write(layOut(compact.Bytes()))
	return err
}

// ReadJSON reads a document, ours or fio's. What stands before the first brace at
// the start of a line (fio's notes) or behind the document is ignored, and so are
// fields that the document has not.
func ReadJSON(data []byte) (*Document, error) {
	start := 0
	if !bytes.HasPrefix(data, []byte("{")) {
		start = bytes.Index(data, []byte("\n{"))
	}
	if start < 0 {
		return nil, errors.New("no JSON object in it: want the output of fio --output-format=json")
	}
	var d Document
	if err := json.NewDecoder(bytes.NewReader(data[start:])).Decode(&d); err != nil {
		return nil, fmt.Errorf("fio's JSON: %w", err)
	}
	return &d, nil
}

// withoutBins is a copy without them.
func (d *Document) withoutBins() *Document {
	lean := *d
	lean.Jobs = make([]Job, 0, len(d.Jobs))
	for _, j := range d.Jobs {
		for _, s := range []**Stats{&j.Read, &j.Write, &j.Trim, &j.Mixed} {
			if *s != nil {
				copied := **s
				copied.Slat.Bins, copied.Clat.Bins, copied.Lat.Bins = nil, nil, nil
				*s = &copied
			}
		}
		if j.Sync != nil {
			copied := *j.Sync
			copied.Lat.Bins = nil
			j.Sync = &copied
		}
		j.Spillway = j.Spillway.withoutBins()
		lean.Jobs = append(lean.Jobs, j)
	}
	return &lean
}

func (j *SpillwayJob) withoutBins() *SpillwayJob {
	if j == nil {
		return nil
	}
	lean := *j
	for _, s := range []**SpillwayStats{&lean.Read, &lean.Write} {
		if *s != nil && (*s).ServiceNS != nil {
			stats, latency := **s, *(*s).ServiceNS
			latency.Bins = nil
			stats.ServiceNS = &latency
			*s = &stats
		}
	}
	return &lean
}

// layOut puts compact JSON into fio's lines: two spaces a level, a space on both
// sides of a colon.
func layOut(compact []byte) []byte {
	var out []byte
	depth := 0
	line := func() {
		out = append(out, '\n')
		for range depth {
			out = append(out, ' ', ' ')
		}
	}
	inString := false
	for i, c := range compact {
		if inString {
			out = append(out, c)
			if c == '"' && !escaped(compact, i) {
				inString = false
			}
			continue
		}
		switch c {
		case '{', '[':
			out = append(out, c)
			depth++
			line()
		case '}', ']':
			depth--
			line()
			out = append(out, c)
		case ',':
			out = append(out, c)
			line()
		case ':':
			out = append(out, " : "...)
		default:
			inString = c == '"'
			out = append(out, c)
		}
	}
	return append(out, '\n')
}

// escaped reports whether an odd number of backslashes stands before i.
func escaped(text []byte, i int) bool {
	n := 0
	for n < i && text[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
