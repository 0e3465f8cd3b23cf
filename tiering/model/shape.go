package model

// shape is what a config.json says of a model, under one name each: the rows of
// the table are shapes, and FromConfig makes one. 0 is: has none.
type shape struct {
	layers, hidden, vocab int
	tied                  bool // the input table is the output's too

	heads, kvHeads, headDim int
	gated                   bool // queries have a gate of their own size
	window, windowed        int  // tokens; layers that look no further

	latent, rotary, plain, value int // MLA: kv_lora_rank, qk_rope_head_dim, qk_nope_head_dim, v_head_dim
	queryRank                    int // q_lora_rank
	indexHeads, indexDim, topK   int // of an indexer

	linear                        int // layers of linear attention
	linearKeyHeads, linearKeyDim  int
	linearHeads, linearDim        int // of values
	linearKernel, linearFloatSize int // convolution; bytes of a number of the state

	inner                     int  // width within a dense layer's MLP
	plainMLP                  bool // two matrices in place of three
	experts, perToken, expert int  // experts of a layer, how many a token meets, their inner width
	shared                    int  // inner width of what every token meets beside them
	dense                     int  // layers without experts, of a model with some
}

// model derives attention and parameters. Norms, biases and routers' biases are
// left out: they are below a thousandth.
func (s *shape) model(name string, weights Precision) *Model {
	m := &Model{Name: name, Hidden: s.hidden, Weights: weights, Attention: s.attention(), Decoder: s.decoder()}
	p := &m.Params
	table := float64(s.vocab) * float64(s.hidden)
	p.Total = table
	if !s.tied {
		p.Input, p.Total = table, 2*table
	}
	p.Total += float64(s.layers-s.linear)*s.lookParams() + float64(s.linear)*s.linearParams()
	if s.experts == 0 {
		p.Total += float64(s.layers) * s.mlp(s.inner)
		return m
	}
	p.Count, p.PerToken = s.experts, s.perToken
	routed := float64(s.layers - s.dense)
	p.Experts = routed * float64(s.experts) * s.mlp(s.expert)
	p.Total += p.Experts + float64(s.dense)*s.mlp(s.inner) + routed*(s.mlp(s.shared)+float64(s.hidden*s.experts))
	return m
}

// decoder is the shape if there is nothing to the model but what a Decoder has.
func (s *shape) decoder() *Decoder {
	d := &Decoder{s.layers, s.hidden, s.inner, s.heads, s.kvHeads, s.headDim, s.vocab, s.tied}
	plain := shape{layers: d.Layers, hidden: d.Hidden, vocab: d.Vocab, tied: d.Tied, heads: d.Heads, kvHeads: d.KVHeads, headDim: d.HeadDim, inner: d.Inner}
	if *s != plain {
		return nil
	}
	return d
}

// mlp is the parameters of one with this inner width.
func (s *shape) mlp(inner int) float64 {
	matrices := 3.0
	if s.plainMLP {
		matrices = 2
	}
	return matrices * float64(s.hidden) * float64(inner)
}

// lookParams is the parameters of one layer's attention.
func (s *shape) lookParams() float64 {
	h := float64(s.hidden)
	if s.latent == 0 {
		queries := float64(s.heads * s.headDim)
		if s.gated {
			queries *= 2
		}
		return h*(queries+float64(2*s.kvHeads*s.headDim)) + float64(s.heads*s.headDim)*h
	}
	queries := float64(s.heads * (s.plain + s.rotary))
	total := h*float64(s.latent+s.rotary) + float64(s.latent*s.heads*(s.plain+s.value)) + float64(s.heads*s.value)*h
	from := h
	if s.queryRank > 0 {
		total += h * float64(s.queryRank)
		from = float64(s.queryRank)
	}
	return total + from*queries + from*float64(s.indexHeads*s.indexDim) + h*float64(s.indexDim+s.indexHeads)
}

// linearParams is the parameters of one layer of gated delta-rule attention:
// queries, keys, values and gate, two numbers a head, and the way out.
func (s *shape) linearParams() float64 {
	h := float64(s.hidden)
	keys, values := float64(s.linearKeyHeads*s.linearKeyDim), float64(s.linearHeads*s.linearDim)
	return h*(2*keys+2*values+float64(2*s.linearHeads)) + values*h + (2*keys+values)*float64(s.linearKernel)
}

// attention groups the layers that are alike.
func (s *shape) attention() (all []Attention) {
	look := Attention{Layers: s.layers - s.linear - s.windowed, QueryHeads: s.heads, KVHeads: s.kvHeads, KeyDim: s.headDim, ValueDim: s.headDim}
	if s.latent > 0 {
		look = Attention{Kind: Latent, Layers: s.layers, QueryHeads: s.heads, KeyDim: s.plain + s.rotary, ValueDim: s.value,
			LatentDim: s.latent + s.rotary, TopK: s.topK, IndexHeads: s.indexHeads, IndexDim: s.indexDim}
	}
	if look.Layers > 0 {
		all = append(all, look)
	}
	if s.windowed > 0 {
		look.Layers, look.Window = s.windowed, s.window
		all = append(all, look)
	}
	if s.linear > 0 {
		all = append(all, s.linearAttention())
	}
	return all
}

// convolutionSize is the bytes of a number that a convolution looks back at: BF16.
const convolutionSize = 2

func (s *shape) linearAttention() Attention {
	keys, values := s.linearKeyHeads*s.linearKeyDim, s.linearHeads*s.linearDim
	state := s.linearHeads*s.linearDim*s.linearKeyDim*s.linearFloatSize + (2*keys+values)*(s.linearKernel-1)*convolutionSize
	// A step multiplies its state of key x value numbers for each head two times:
	// as much as looking at one token for each key dimension.
	return Attention{Kind: Linear, Layers: s.linear, QueryHeads: s.linearHeads, KeyDim: s.linearKeyDim, ValueDim: s.linearDim,
		Window: 1, StateBytes: max(state, 0)}
}
