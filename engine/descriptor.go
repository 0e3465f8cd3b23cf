package engine

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/gowebpki/jcs"
)

// Descriptor says exactly whose KV bytes a namespace holds. Two descriptors
// that differ in any field are two namespaces. Its canonical JSON (RFC 8785)
// hashed with SHA-256 is the namespace ID.
type Descriptor struct {
	// Name is the human's handle, unique in a store's listing only by habit.
	Name           string            `json:"name"`
	Model          string            `json:"model,omitempty"`             // name of the model
	Revision       string            `json:"revision,omitempty"`          // revision or weights digest
	KVDtype        string            `json:"kv_dtype,omitempty"`          // type of one number, as in bf16
	Layout         string            `json:"layout,omitempty"`            // name of the order of bytes within a block
	LayoutVersion  int               `json:"layout_version,omitempty"`    // of that layout
	TokensPerBlock int               `json:"tokens_per_block,omitempty"`  // tokens whose keys and values a block holds
	BlockBytes     int               `json:"block_bytes"`                 // 4096..67108864
	Pieces         int               `json:"pieces,omitempty"`            // pieces per block the engine uses; informative
	TensorParallel int               `json:"tensor_parallel,omitempty"`   // size of the tensor-parallel group
	PipelineSize   int               `json:"pipeline_parallel,omitempty"` // number of pipeline stages
	Rank           string            `json:"rank,omitempty"`              // a number, or "all"
	HashAlgorithm  string            `json:"hash_algorithm,omitempty"`    // that makes keys of token prefixes
	HashSeed       string            `json:"hash_seed,omitempty"`         // of that algorithm
	SaltDomain     string            `json:"salt_domain,omitempty"`       // keeps tenants with the same model apart
	Extra          map[string]string `json:"extra,omitempty"`             // whatever else tells blocks apart
}

// Block sizes a namespace may have.
const (
	BlockBytesMin = 4 << 10
	BlockBytesMax = 64 << 20
)

// Validate reports the first field that is out of range, quoting its value.
func (d Descriptor) Validate() error {
	if d.Name == "" || len(d.Name) > 255 {
		return fmt.Errorf("%w: namespace name %q must have 1 to 255 bytes", ErrConfig, d.Name)
	}
	if d.BlockBytes < BlockBytesMin || d.BlockBytes > BlockBytesMax {
		return fmt.Errorf("%w: block size %d of namespace %q must be between %d and %d bytes",
			ErrConfig, d.BlockBytes, d.Name, BlockBytesMin, BlockBytesMax)
	}
	for field, n := range map[string]int{"layout_version": d.LayoutVersion, "tokens_per_block": d.TokensPerBlock,
		"pieces": d.Pieces, "tensor_parallel": d.TensorParallel, "pipeline_parallel": d.PipelineSize} {
		if n < 0 {
			return fmt.Errorf("%w: %s %d of namespace %q is negative", ErrConfig, field, n, d.Name)
		}
	}
	canonical, err := d.canonical()
	if err != nil {
		return fmt.Errorf("%w: descriptor of namespace %q: %v", ErrConfig, d.Name, err)
	}
	if len(canonical) > descriptorBytesMax {
		return fmt.Errorf("%w: descriptor of namespace %q has %d bytes, more than %d",
			ErrConfig, d.Name, len(canonical), descriptorBytesMax)
	}
	if !d.isWhole(canonical) {
		return fmt.Errorf("%w: descriptor of namespace %q has text that is not UTF-8, or a number that JSON cannot hold: two like it would be one namespace",
			ErrConfig, d.Name)
	}
	return nil
}

// isWhole reports whether the canonical form says everything the descriptor
// does.
func (d Descriptor) isWhole(canonical []byte) bool {
	var back Descriptor
	if err := json.Unmarshal(canonical, &back); err != nil {
		return false
	}
	same := maps.Equal(d.Extra, back.Extra)
	d.Extra, back.Extra = nil, nil
	return same && reflect.DeepEqual(d, back)
}

// descriptorBytesMax bounds the canonical form, and with it the store file.
const descriptorBytesMax = 8 << 10

// canonical is the descriptor's JSON in the form of RFC 8785: one byte string
// for one meaning, whatever wrote it.
func (d Descriptor) canonical() ([]byte, error) {
	plain, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(plain)
}

// ID is the SHA-256 of the canonical JSON: the namespace's identity.
func (d Descriptor) ID() ([32]byte, error) {
	canonical, err := d.canonical()
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(canonical), nil
}
