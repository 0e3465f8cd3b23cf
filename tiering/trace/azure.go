package trace

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

const (
	azureHeader     = "TIMESTAMP,ContextTokens,GeneratedTokens"
	azureTimeLayout = "2006-01-02 15:04:05.9999999"
)

// AzureReader streams a trace of the Azure LLM inference data set, comma-separated
// values plain or compressed with zstd: when requests came and how long they
// were. Its requests have no HashIDs.
type AzureReader struct {
	*lines
	first      time.Time
	previousMS int64
	err        error
}

// OpenAzure opens such a trace. The caller closes the reader.
func OpenAzure(path string) (*AzureReader, error) {
	l, err := openLines(path)
	if err != nil {
		return nil, err
	}
	return &AzureReader{lines: l}, nil
}

// NewAzureReader reads such a trace from src; name stands in errors.
func NewAzureReader(src io.Reader, name string) (*AzureReader, error) {
	l, err := newLines(src, name)
	if err != nil {
		return nil, err
	}
	return &AzureReader{lines: l}, nil
}

// Next is that of Source; times count from the first request.
func (r *AzureReader) Next() (Request, error) {
	if r.err != nil {
		return Request{}, r.err
	}
	q, err := r.read()
	r.err = err
	return q, err
}

func (r *AzureReader) read() (q Request, err error) {
	text, err := r.nextFull()
	if err == nil && r.first.IsZero() {
		if string(text) != azureHeader {
			return q, r.fail(r.line, "the header is not "+azureHeader, nil)
		}
		text, err = r.nextFull()
	}
	if err != nil {
		return q, err
	}
	at, in, out, reason := azureFields(text)
	if reason != "" {
		return q, r.fail(r.line, reason, nil)
	}
	if r.first.IsZero() {
		r.first = at
	}
	q = Request{TimestampMS: at.Sub(r.first).Milliseconds(), InputLength: in, OutputLength: out}
	if q.TimestampMS < r.previousMS {
		return q, r.fail(r.line, "earlier than the line before: the lines are not in time order", nil)
	}
	r.previousMS = q.TimestampMS
	return q, nil
}

func azureFields(text []byte) (at time.Time, in, out int, reason string) {
	fields := bytes.Split(text, []byte(","))
	if len(fields) != 3 {
		return at, 0, 0, fmt.Sprintf("%d fields, not 3", len(fields))
	}
	at, err := time.Parse(azureTimeLayout, string(fields[0]))
	if err != nil {
		return at, 0, 0, fmt.Sprintf("time %.40q is not like %s", fields[0], azureTimeLayout)
	}
	for i, n := range []*int{&in, &out} {
		value, err := strconv.ParseUint(string(fields[i+1]), 10, 32)
		if err != nil || value > math.MaxInt32 {
			return at, 0, 0, fmt.Sprintf("length %.40q is no number of tokens", fields[i+1])
		}
		*n = int(value)
	}
	return at, in, out, ""
}
