package model

import "math"

// Kind is how the layers of a Model look back.
type Kind uint8

// The kinds.
const (
	Grouped Kind = iota // keys and values for each KV head
	Latent              // MLA: one latent vector and one rotary key for all heads
	Linear              // a state of fixed size for each sequence, none for each token
)

var kindNames = [...]string{"attention", "latent attention", "linear attention"}

func (k Kind) String() string { return kindNames[k] }

// Attention is a number of layers that are alike.
type Attention struct {
	Kind       Kind
	Layers     int
	QueryHeads int
	KVHeads    int // Grouped
	KeyDim     int // of a head, as a query meets it
	ValueDim   int // of a head
	LatentDim  int // Latent: numbers kept of one token
	Window     int // tokens that a token looks back over; 0: all
	TopK       int // tokens that an indexer picks to look at; 0: it has none
	IndexHeads int // of the indexer
	IndexDim   int // numbers that the indexer keeps of one token
	StateBytes int // Linear: of one sequence and layer
}

// Params are numbers of parameters.
type Params struct {
	Total   float64
	Experts float64 // of Total, those of routed experts
	Input   float64 // of Total, an input table that only is looked up; 0 if it is the output's too
	// Count and PerToken say how many routed experts a layer has and how many of
	// them a token meets; 0: the model is dense.
	Count, PerToken int
}

// Active is how many parameters a token meets, the input table counted as whole.
// Makers mostly leave the input table out of this figure.
func (p Params) Active() float64 { return p.Touched(1) }

// Touched is how many parameters a decode step of a batch reads: all that are no
// experts, and those experts that at least one token of the batch was sent to, if
// each picks PerToken of Count evenly and alone.
func (p Params) Touched(batch int) float64 {
	if p.Count == 0 {
		return p.Total
	}
	return p.Total - p.Experts + p.Experts*p.Coverage(batch)
}

// Coverage is the share of routed experts that a batch meets; 1 if the model is
// dense.
func (p Params) Coverage(batch int) float64 {
	if p.Count == 0 {
		return 1
	}
	return 1 - math.Pow(1-float64(p.PerToken)/float64(p.Count), float64(batch))
}

// Model is what there is to know of a model to say what a token costs.
type Model struct {
	Name      string
	Hidden    int // width
	Attention []Attention
	Params    Params
	Weights   Precision // as published
	Decoder   *Decoder  // its shape, if it is a plain decoder; else nil
}

// Decoder is the shape of a plain decoder: dense, each layer a Grouped attention that
// looks back at all tokens and an MLP of three matrices. One can be built from it.
type Decoder struct {
	Layers  int  `json:"layers"`   // all alike
	Hidden  int  `json:"hidden"`   // width
	Inner   int  `json:"inner"`    // width within an MLP
	Heads   int  `json:"heads"`    // of queries
	KVHeads int  `json:"kv_heads"` // of keys and of values
	HeadDim int  `json:"head_dim"` // numbers of a head
	Vocab   int  `json:"vocab"`    // rows of the input and of the output table
	Tied    bool `json:"tied"`     // both tables are one
}

// Layers is the number of layers of all kinds.
func (m *Model) Layers() (n int) {
	for i := range m.Attention {
		n += m.Attention[i].Layers
	}
	return n
}

// tokenBytes is what one layer keeps of one token, an indexer's share apart.
func (a *Attention) tokenBytes(kv Precision) float64 {
	switch a.Kind {
	case Latent:
		return kv.Bytes(float64(a.LatentDim))
	case Grouped:
		return kv.Bytes(float64(a.KVHeads * (a.KeyDim + a.ValueDim)))
	}
	return 0
}

// indexScale is the bytes of one scale, of 128 numbers in FP8: in this form the
// engines keep what an indexer needs, whatever the precision of KV.
const indexScale = 4

func (a *Attention) indexBytes() float64 {
	if a.IndexDim == 0 {
		return 0
	}
	return float64(a.IndexDim + (a.IndexDim+127)/128*indexScale)
}

// TokenBytes is the KV of one token in all layers, near enough for every window to
// hold it: 2 x layers x KV heads x head dimension x bytes, or layers x latent
// dimension x bytes. An indexer's keys are IndexBytes.
func (m *Model) TokenBytes(kv Precision) int64 {
	return m.sum(func(a *Attention) float64 { return a.tokenBytes(kv) })
}

// IndexBytes is what indexers keep of one token in all layers, beside TokenBytes.
func (m *Model) IndexBytes() int64 {
	return m.sum((*Attention).indexBytes)
}

// FarBytes is the part of TokenBytes of a token that has left every window.
func (m *Model) FarBytes(kv Precision) int64 {
	return m.sum(func(a *Attention) float64 {
		if a.Window > 0 {
			return 0
		}
		return a.tokenBytes(kv)
	})
}

// StateBytes is what linear attention keeps of one sequence, however long it is.
func (m *Model) StateBytes() int64 {
	return m.sum(func(a *Attention) float64 { return float64(a.StateBytes) })
}

// BlockBytes is a block of so many tokens in all layers, with an indexer's share
// and without states of sequences.
func (m *Model) BlockBytes(tokens int, kv Precision) int64 {
	return int64(tokens) * (m.TokenBytes(kv) + m.IndexBytes())
}

// KeptBytes is the cache of one sequence of so many tokens: what lies behind a
// window is not counted, states are.
func (m *Model) KeptBytes(context int, kv Precision) int64 {
	return m.StateBytes() + m.sum(func(a *Attention) float64 {
		return a.tokenBytes(kv)*float64(a.reach(context, a.Window)) + a.indexBytes()*float64(context)
	})
}

// stepBytes is what a decode step moves of the cache of one sequence: what it
// looks back at is read, an indexer's keys are read whole, states are read and
// written.
func (m *Model) stepBytes(context int, kv Precision) int64 {
	return 2*m.StateBytes() + m.sum(func(a *Attention) float64 {
		seen := a.reach(a.reach(context, a.Window), a.TopK)
		return a.tokenBytes(kv)*float64(seen) + a.indexBytes()*float64(context)
	})
}

func (*Attention) reach(context, limit int) int {
	if limit > 0 {
		return min(context, limit)
	}
	return context
}

func (m *Model) sum(of func(*Attention) float64) int64 {
	total := 0.0
	for i := range m.Attention {
		total += of(&m.Attention[i]) * float64(m.Attention[i].Layers)
	}
	return int64(math.Ceil(total))
}
