package engine

// Descriptor says exactly whose KV bytes a namespace holds. Two descriptors
// that differ in any field are two namespaces. Its canonical JSON (RFC 8785)
// hashed with SHA-256 is the namespace ID.
type Descriptor struct {
	// Name is the human's handle, unique in a store's listing only by habit.
	Name           string            `json:"name"`
	Model          string            `json:"model,omitempty"`
	Revision       string            `json:"revision,omitempty"` // revision or weights digest
	KVDtype        string            `json:"kv_dtype,omitempty"`
	Layout         string            `json:"layout,omitempty"`
	LayoutVersion  int               `json:"layout_version,omitempty"`
	TokensPerBlock int               `json:"tokens_per_block,omitempty"`
	BlockBytes     int               `json:"block_bytes"`      // 4096..67108864
	Pieces         int               `json:"pieces,omitempty"` // pieces per block the engine uses; informative
	TensorParallel int               `json:"tensor_parallel,omitempty"`
	PipelineSize   int               `json:"pipeline_parallel,omitempty"`
	Rank           string            `json:"rank,omitempty"` // a number, or "all"
	HashAlgorithm  string            `json:"hash_algorithm,omitempty"`
	HashSeed       string            `json:"hash_seed,omitempty"`
	SaltDomain     string            `json:"salt_domain,omitempty"`
	Extra          map[string]string `json:"extra,omitempty"`
}
