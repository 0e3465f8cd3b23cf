// Package charttest checks pictures in tests.
package charttest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

// CheckSVG wants well-formed XML with a size, and every number of a place finite and
// within the picture. It returns how often each element occurs.
func CheckSVG(t *testing.T, name string, picture []byte) map[string]int {
	t.Helper()
	elements := map[string]int{}
	var width, height float64
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		elements[element.Name.Local]++
		for _, a := range element.Attr {
			if a.Name.Local == "viewBox" {
				box := append(strings.Fields(a.Value), "", "", "", "")
				width, height = number(box[2]), number(box[3])
			}
			for _, p := range places(a, width, height) {
				if v := number(p.text); !(v >= 0 && v <= p.limit) {
					t.Errorf("%s: %s has %s=%q in a picture of %v x %v", name, element.Name.Local, a.Name.Local, p.text, width, height)
				}
			}
		}
	}
	if !(width > 0 && height > 0) {
		t.Errorf("%s has no size", name)
	}
	return elements
}

// place is one coordinate or length and what it may not exceed.
type place struct {
	text  string
	limit float64
}

func places(a xml.Attr, width, height float64) (all []place) {
	switch a.Name.Local {
	case "x", "x1", "x2", "cx":
		return []place{{a.Value, width}}
	case "y", "y1", "y2", "cy":
		return []place{{a.Value, height}}
	case "width", "height":
		if !strings.HasSuffix(a.Value, "%") {
			return []place{{a.Value, math.MaxFloat64}}
		}
	case "points":
		for pair := range strings.FieldsSeq(a.Value) {
			x, y, _ := strings.Cut(pair, ",")
			all = append(all, place{x, width}, place{y, height})
		}
	}
	return all
}

// number is NaN for anything that is none.
func number(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
