package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/spillway-kv/spillway/engine/histogram"
)

// Decimal is a number with six decimals in JSON, as fio writes them. One that is
// no number is null.
type Decimal float64

// MarshalJSON writes six decimals.
func (d Decimal) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(d)) || math.IsInf(float64(d), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(d), 'f', 6, 64), nil
}

// Option is one option of a job as it was written; Value is "" for a flag.
type Option struct{ Name, Value string }

// Options keep their order.
type Options []Option

// Percentile is one percentile of a latency.
type Percentile struct {
	Percent float64
	NS      int64
}

// Percentiles are in ascending order.
type Percentiles []Percentile

// Bins are the non-empty buckets of a histogram in ascending order.
type Bins []histogram.Bin

// Share is the part of all I/Os that fell into a class.
type Share struct {
	Label   string
	Percent Decimal
}

// Distribution are the classes in ascending order, all of them.
type Distribution []Share

// The ordered maps are JSON objects whose keys keep their order.

// MarshalJSON writes an object.
func (o Options) MarshalJSON() ([]byte, error) {
	return object(len(o), func(i int) (string, any) { return o[i].Name, o[i].Value })
}

// MarshalJSON writes an object.
func (p Percentiles) MarshalJSON() ([]byte, error) {
	return object(len(p), func(i int) (string, any) { return strconv.FormatFloat(p[i].Percent, 'f', 6, 64), p[i].NS })
}

// MarshalJSON writes an object.
func (b Bins) MarshalJSON() ([]byte, error) {
	return object(len(b), func(i int) (string, any) { return strconv.FormatInt(b[i].MidpointNS, 10), b[i].Count })
}

// MarshalJSON writes an object.
func (d Distribution) MarshalJSON() ([]byte, error) {
	return object(len(d), func(i int) (string, any) { return d[i].Label, d[i].Percent })
}

// UnmarshalJSON reads an object of strings.
func (o *Options) UnmarshalJSON(data []byte) error {
	return members(data, func(name string, value json.RawMessage) error {
		var text string
		err := json.Unmarshal(value, &text)
		*o = append(*o, Option{name, text})
		return err
	})
}

// UnmarshalJSON reads an object of numbers.
func (p *Percentiles) UnmarshalJSON(data []byte) error {
	return members(data, func(name string, value json.RawMessage) error {
		percent, err := strconv.ParseFloat(name, 64)
		if err != nil {
			return fmt.Errorf("percentile %q: %w", name, err)
		}
		*p = append(*p, Percentile{Percent: percent})
		return json.Unmarshal(value, &(*p)[len(*p)-1].NS)
	})
}

// UnmarshalJSON reads an object of numbers.
func (b *Bins) UnmarshalJSON(data []byte) error {
	return members(data, func(name string, value json.RawMessage) error {
		midpointNS, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return fmt.Errorf("bin %q: %w", name, err)
		}
		*b = append(*b, histogram.Bin{MidpointNS: midpointNS})
		return json.Unmarshal(value, &(*b)[len(*b)-1].Count)
	})
}

// UnmarshalJSON reads an object of numbers.
func (d *Distribution) UnmarshalJSON(data []byte) error {
	return members(data, func(name string, value json.RawMessage) error {
		*d = append(*d, Share{Label: name})
		return json.Unmarshal(value, &(*d)[len(*d)-1].Percent)
	})
}

// object writes n members.
func object(n int, member func(i int) (name string, value any)) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		name, value := member(i)
		for j, part := range []any{name, value} {
			if j > 0 {
				b.WriteByte(':')
			}
			if err := plain(&b, part); err != nil {
				return nil, err
			}
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// members calls each for the members of an object, in order.
func members(data []byte, each func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return fmt.Errorf("%.20q is no object", data)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := each(name.(string), value); err != nil {
			return err
		}
	}
	return nil
}

// plain appends a value as compact JSON, without escapes for HTML.
func plain(b *bytes.Buffer, value any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the line's end
	return nil
}
