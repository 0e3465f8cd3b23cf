package peer

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/spillway-kv/spillway/engine"
)

// DescriptorBytesMax bounds the body of a Describe.
const DescriptorBytesMax = 64 << 10

// AppendDescribe encodes a Describe: the descriptor of a namespace, as JSON, for the peer
// to open it. It has no scope, and its answer is empty.
func AppendDescribe(b []byte, d engine.Descriptor) ([]byte, error) {
	text, err := json.Marshal(d)
	return append(b, text...), err
}

// ParseDescribe decodes a Describe. A descriptor with fields that this version does not
// know names a namespace that it cannot open.
func ParseDescribe(body []byte) (d engine.Descriptor, err error) {
	r := read(body)
	if len(body) > DescriptorBytesMax {
		r.Fail("a descriptor of %d bytes, at most %d are allowed", len(body), DescriptorBytesMax)
		return d, r.Err()
	}
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(&d); err != nil {
		r.Fail("descriptor: %w", err)
		return engine.Descriptor{}, r.Err()
	}
	if _, err := in.Token(); err != io.EOF {
		r.Fail("something follows the descriptor")
		return engine.Descriptor{}, r.Err()
	}
	return d, nil
}
