package budget

import (
	"fmt"
	"strconv"
	"strings"

	store "github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/fio/units"
)

// Lines is the derivation for people: rows of a label and a text. An empty label
// goes on with the row before.
func (d *Derivation) Lines() [][2]string {
	var l lines
	l.add("budget", "%s per token: %s", show(d.TokenMS), d.Where)
	for _, note := range d.Notes {
		l.add("note", "%s", note)
	}
	if d.Model != nil {
		l.ofModel(d)
		l.ofStep(d)
	}
	if m := d.Limit; m != nil {
		l.add("MLPerf", "limits of %s, P99 per token: server %s, interactive %s; to the first token %s and %s", m.Model,
			show(m.ServerTokenMS), show(m.InteractiveTokenMS), show(m.ServerFirstMS), show(m.InteractiveFirstMS))
	}
	l.ofBlocks(d)
	l.ofPrefixes(d)
	l.ofDrives(d)
	return l
}

type lines [][2]string

func (l *lines) add(label, format string, args ...any) {
	*l = append(*l, [2]string{label, fmt.Sprintf(format, args...)})
}

func (l *lines) ofModel(d *Derivation) {
	m, s := d.Model, d.Setup
	text := fmt.Sprintf("%s parameters", billions(m.Parameters))
	if m.Experts > 0 {
		text += fmt.Sprintf(", %s met by one token: %d of %d experts of a layer", billions(m.Active), m.PerToken, m.Experts)
	}
	l.add("model", "%s, %s, %d layers, weights %s", m.Name, text, m.Layers, s.Weights)
	l.add("KV", "%d bytes a token in %s", m.TokenBytes, s.KV)
	if m.FarBytes != m.TokenBytes {
		l.add("", "%d bytes of a token that all windows have left", m.FarBytes)
	}
	if m.IndexBytes > 0 {
		l.add("", "%d bytes a token of an index beside", m.IndexBytes)
	}
	if m.StateBytes > 0 {
		l.add("", "%s of states for each sequence, however long", units.Bytes(m.StateBytes))
	}
	g := d.GPU
	arithmetic := "arithmetic unknown"
	if g.TFLOPS > 0 {
		arithmetic = fmt.Sprintf("%.4g TFLOPS for %s", g.TFLOPS, s.Weights)
	}
	l.add("GPU", "%s, memory %.4g GB/s, %s; %s", g.Name, g.GBps, arithmetic, g.Source)
}

func (l *lines) ofStep(d *Derivation) {
	r, s := d.Roofline, d.Setup
	l.add("step", "batch %d, context %d, TP %d, PP %d", s.Batch, s.Context, s.TP, s.PP)
	l.add("", "reads %s parameters, %s of weights, and %s of KV spread over %d of the GPUs that share a layer", billions(r.Parameters), gigabytes(r.WeightBytes), gigabytes(r.KVBytes), r.KVGPUs)
	l.add("", "memory %s at %.2g of the bandwidth", show(r.MemoryMS), r.BandwidthShare)
	if r.ComputeMS > 0 {
		l.add("", "arithmetic %s at %.2g of the peak", show(r.ComputeMS), r.ComputeShare)
	}
	if r.AllReduceMS+r.SendMS > 0 {
		l.add("", "all-reduce %s, sending between groups %s", show(r.AllReduceMS), show(r.SendMS))
	}
	l.add("roofline", "%s per token, bound by %s; engines are slower, unless they guess tokens ahead", show(r.TokenMS), r.Bound)
}

func (l *lines) ofBlocks(d *Derivation) {
	var all []string
	for _, b := range d.Blocks {
		text := fmt.Sprintf("%s (%d tokens)", units.Bytes(b.Bytes), b.Tokens)
		if b.Bytes > store.BlockBytesMax {
			text += ", which is over the " + units.Bytes(store.BlockBytesMax) + " that a store takes"
		}
		all = append(all, text)
	}
	if len(all) > 0 {
		l.add("block", "%s", strings.Join(all, ", "))
	}
}

func (l *lines) ofPrefixes(d *Derivation) {
	label := "load or compute"
	for _, p := range d.Prefixes {
		peak := ""
		if p.PeakGBps > 0 {
			peak = fmt.Sprintf("; from %.3g GB/s against a GPU at its peak", p.PeakGBps)
		}
		l.add(label, "a prefix of %d tokens, %s, takes %s to compute: loading wins from %.3g GB/s on%s", p.Tokens, units.Bytes(p.Bytes), show(p.ComputeMS), p.GBps, peak)
		label = ""
	}
	for _, p := range d.Prompts {
		l.add(label, "measured: a prompt of %d tokens took %s", p.Tokens, show(p.MS))
		label = ""
	}
}

func (l *lines) ofDrives(d *Derivation) {
	for _, f := range d.Drives {
		text := fmt.Sprintf("by Little's law %s may be in flight", units.Bytes(f.InFlightBytes))
		var blocks []string
		for i, n := range f.Blocks {
			blocks = append(blocks, fmt.Sprintf("%d of %d tokens", n, d.Blocks[i].Tokens))
		}
		if len(blocks) > 0 {
			text += ", in blocks: " + strings.Join(blocks, ", ")
		}
		switch {
		case f.WorthFrom == 1:
			text += "; loading always wins"
		case f.WorthFrom > 0:
			text += fmt.Sprintf("; loading wins from %d tokens on", f.WorthFrom)
		case len(d.Prefixes) > 0:
			text += "; loading never wins"
		}
		l.add(fmt.Sprintf("drive of %.3g GB/s", f.GBps), "%s", text)
	}
}

// show writes milliseconds with three digits; 0 is none.
func show(ms float64) string {
	switch {
	case ms == 0:
		return "none"
	case ms < 1:
		return strconv.FormatFloat(ms*1e3, 'g', 3, 64) + " us"
	case ms < 1e4:
		return strconv.FormatFloat(ms, 'f', max(0, 2-digits(ms)), 64) + " ms"
	}
	return strconv.FormatFloat(ms/1e3, 'f', 1, 64) + " s"
}

// digits is how many stand before the point, less one.
func digits(x float64) (n int) {
	for ; x >= 10; x /= 10 {
		n++
	}
	return n
}

func billions(n float64) string { return fmt.Sprintf("%.4g billion", n/1e9) }

func gigabytes(n int64) string { return fmt.Sprintf("%.4g GB", float64(n)/1e9) }
