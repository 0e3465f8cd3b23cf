package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// record mirrors a line; pointers tell a missing field from a zero.
type record struct {
	Timestamp    *int64 `json:"timestamp"`
	InputLength  *int64 `json:"input_length"`
	OutputLength *int64 `json:"output_length"`
	HashIDs      idList `json:"hash_ids"`
}

// idList is decoded by hand: encoding/json would read a null in it as id 0.
type idList []uint64

// UnmarshalJSON is given one well-formed JSON value.
func (l *idList) UnmarshalJSON(value []byte) error {
	inner, isList := bytes.CutPrefix(bytes.TrimSpace(value), []byte("["))
	if !isList {
		return fmt.Errorf("%w: it is %.40s", errHashIDs, value)
	}
	inner = bytes.TrimSpace(bytes.TrimSuffix(inner, []byte("]")))
	ids := make(idList, 0, bytes.Count(inner, []byte(","))+1)
	for len(inner) > 0 {
		var text []byte
		text, inner, _ = bytes.Cut(inner, []byte(","))
		text = bytes.TrimSpace(text)
		id, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %.40s is among them", errHashIDs, text)
		}
		ids = append(ids, id)
	}
	*l = ids
	return nil
}

var errHashIDs = errors.New("hash_ids must be a list of whole numbers from 0 to 2^64-1")

// parse decodes one line. A non-empty reason says why it is not a request.
// Fields that the format does not know are ignored.
func parse(text []byte) (q Request, reason string) {
	if !utf8.Valid(text) {
		return q, "not UTF-8 text"
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return q, "not a JSON object"
	}
	var rec record
	if err := json.Unmarshal(text, &rec); err != nil {
		return q, reasonOf(err)
	}
	if reason := rec.missing(); reason != "" {
		return q, reason
	}
	for _, n := range []struct {
		name  string
		value int64
		max   int64
	}{
		{"timestamp", *rec.Timestamp, math.MaxInt64},
		{"input_length", *rec.InputLength, math.MaxInt32},
		{"output_length", *rec.OutputLength, math.MaxInt32},
	} {
		if n.value < 0 {
			return q, fmt.Sprintf("%s %d is negative", n.name, n.value)
		}
		if n.value > n.max {
			return q, fmt.Sprintf("%s %d is more than %d", n.name, n.value, n.max)
		}
	}
	return Request{
		TimestampMS:  *rec.Timestamp,
		InputLength:  int(*rec.InputLength),
		OutputLength: int(*rec.OutputLength),
		HashIDs:      rec.HashIDs,
	}, ""
}

func (rec *record) missing() string {
	var names []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"timestamp", rec.Timestamp != nil}, {"input_length", rec.InputLength != nil},
		{"output_length", rec.OutputLength != nil}, {"hash_ids", rec.HashIDs != nil},
	} {
		if !f.has {
			names = append(names, f.name)
		}
	}
	if names == nil {
		return ""
	}
	return "no " + strings.Join(names, ", no ")
}

// reasonOf puts the decoder's error into a trace's words.
func reasonOf(err error) string {
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.Is(err, errHashIDs):
		return err.Error()
	case errors.As(err, &wrongType):
		return fmt.Sprintf("%s must be a whole number, not %s", wrongType.Field, wrongType.Value)
	}
	return "malformed JSON: " + err.Error()
}
