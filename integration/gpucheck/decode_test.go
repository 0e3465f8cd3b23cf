package gpucheck

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed" // of the script
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-kv/spillway/fio/budget"
	"github.com/spillway-kv/spillway/tiering/gpu"
	"github.com/spillway-kv/spillway/tiering/model"
)

//go:embed decode.py
var decodeScript string

const measurement = "gpu-measurement.json"

// decodeAsk is the input of decode.py.
type decodeAsk struct {
	Decoder  *model.Decoder `json:"decoder"`
	Points   []decodePoint  `json:"points"`
	Device   string         `json:"device"`
	Steps    int            `json:"steps"`
	Seconds  float64        `json:"seconds"`
	Deadline float64        `json:"deadline"`
	Bytes    int64          `json:"bytes"`
}

type decodePoint struct {
	Batch   int `json:"batch"`
	Context int `json:"context"`
}

// decodeLine is a line of its output.
type decodeLine struct {
	Type string `json:"type"` // machine, decode or skipped
	decodePoint
	MedianMS  float64 `json:"median_ms"`
	P99MS     float64 `json:"p99_ms"`
	Steps     int     `json:"steps"`
	Layers    int     `json:"layers"`
	Attention string  `json:"attention"`
	Graph     bool    `json:"graph"`
	GBps      float64 `json:"gb_per_s"`
	Torch     string  `json:"torch"`
	Device    string  `json:"device"`
	OfLayers  int     `json:"of_layers"`
	Why       string  `json:"why"`
}

// errNoTorch: the script cannot run here.
var errNoTorch = errors.New("decode.py did not run")

// decode runs the script. Lines that came before it failed, or its time was over, are
// given too.
func decode(ctx context.Context, ask decodeAsk) (lines []decodeLine, err error) {
	in, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, cmp.Or(os.Getenv(pythonPath), "python3"), "-c", decodeScript)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, &stderr
	cmd.WaitDelay = time.Second
	runErr := cmd.Run()
	for s := bufio.NewScanner(&stdout); s.Scan(); {
		var line decodeLine
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			break // half a line
		}
		lines = append(lines, line)
	}
	said := strings.TrimSpace(stderr.String())
	if at := strings.LastIndexByte(said, '\n'); at >= 0 {
		said = said[at+1:]
	}
	var exit *exec.ExitError
	switch {
	case runErr == nil:
		return lines, nil
	case errors.Is(runErr, exec.ErrNotFound):
		return nil, fmt.Errorf("%w: %w", errNoTorch, runErr)
	case errors.As(runErr, &exit) && exit.ExitCode() == 3:
		return lines, fmt.Errorf("%w: %s", errNoTorch, said)
	}
	return lines, fmt.Errorf("decode.py: %w: %s", errors.Join(runErr, ctx.Err()), said)
}

// stepContext ends a little before the step is cut, so that what was found is kept.
func stepContext(t *testing.T) (ctx context.Context, left time.Duration) {
	t.Helper()
	left = 100 * time.Second
	if ms, err := strconv.ParseInt(os.Getenv(stepEnds), 10, 64); err == nil {
		left = time.Until(time.UnixMilli(ms)) - 5*time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), left)
	t.Cleanup(cancel)
	return ctx, left
}

// modelAsked is the model whose decode step is measured.
func modelAsked(t *testing.T) *model.Model {
	t.Helper()
	m, err := model.Find(cmp.Or(os.Getenv(modelName), "Llama-3.1-8B"))
	if err != nil {
		t.Fatal(err)
	}
	if m.Decoder == nil {
		t.Fatalf("%s is no plain decoder, and no other is built here: spillway budget --list=models --json shows those that have a decoder", m.Name)
	}
	return m
}

func pointsAsked(t *testing.T) []decodePoint {
	t.Helper()
	context, err := strconv.Atoi(cmp.Or(os.Getenv(contextTokens), "4096"))
	if err != nil || context < 1 {
		t.Fatalf("%s=%s is no number of tokens", contextTokens, os.Getenv(contextTokens))
	}
	return []decodePoint{{1, context}, {32, context}}
}

// TestDecode measures a decode step, or, where no script can, how long the reading of
// what it reads takes, and leaves that as a measurement of package budget.
func TestDecode(t *testing.T) {
	d, _ := openDevice(t)
	m, points := modelAsked(t), pointsAsked(t)
	ctx, left := stepContext(t)
	rate := deviceRate(t, ctx, d)
	report(t, finding{Name: "memory of the GPU, read and written by copies", Value: rate / 1e9, Unit: "GB/s"})

	kept := &budget.Stored{Model: m.Name, GPU: nameOf(t, d), TP: 1, PP: 1, Weights: model.BF16.String(), KV: model.BF16.String(),
		Measured: time.Now().UTC().Truncate(time.Second)}
	lines, err := []decodeLine(nil), fmt.Errorf("%w: this is a stand-in for a GPU", errNoTorch)
	if real {
		ask := decodeAsk{Decoder: m.Decoder, Points: points, Device: "cuda", Steps: 500, Seconds: 12, Deadline: left.Seconds() - 40}
		lines, err = decode(ctx, ask)
	}
	if err != nil && !errors.Is(err, errNoTorch) {
		t.Error(err)
	}
	keepMeasured(t, kept, lines)
	for _, line := range lines {
		// Copies come near to what the memory can do, reads a little nearer.
		if line.GBps*1e9 > 1.5*rate {
			t.Errorf("batch %d: a step that reads %.0f GB/s is not to be believed, where copies move %.0f", line.Batch, line.GBps, rate/1e9)
		}
	}
	if len(kept.Points) == 0 {
		estimate(t, kept, m, points, rate, fmt.Sprint(err))
	}
	path := filepath.Join(output(t), measurement)
	if err := kept.Write(path); err != nil {
		t.Fatal(err)
	}
	readBack(t, path, kept)
}

// keepMeasured takes the median of each measured point.
func keepMeasured(t *testing.T, kept *budget.Stored, lines []decodeLine) {
	t.Helper()
	all := 0 // layers
	for _, line := range lines {
		name := fmt.Sprintf("token at batch %d, context %d", line.Batch, line.Context)
		switch line.Type {
		case "machine":
			all = line.OfLayers
			kept.By = fmt.Sprintf("gpu-check, torch %s with random weights, median", line.Torch)
			report(t, finding{Name: "torch " + line.Torch, Text: fmt.Sprintf("the weights of %d of %d layers fit", line.Layers, all)})
		case "skipped":
			report(t, finding{Name: name, Text: "not measured: " + line.Why})
		case "decode":
			how := fmt.Sprintf("median of %d, %s attention", line.Steps, line.Attention)
			if line.Graph {
				how += ", as a CUDA graph"
			}
			if line.Layers < all {
				drawn := fmt.Sprintf("batch %d drawn out from %d of %d layers", line.Batch, line.Layers, all)
				how += "; " + drawn
				kept.By += ", " + drawn
			}
			report(t, finding{name, line.MedianMS, "ms", how})
			report(t, finding{name + ", P99", line.P99MS, "ms", fmt.Sprintf("%.3g GB/s", line.GBps)})
			kept.Points = append(kept.Points, budget.StoredPoint{Batch: line.Batch, Context: line.Context, MS: line.MedianMS})
		}
	}
}

// estimate takes the time to read weights and KV once, at the rate of copies. A real
// step is slower.
func estimate(t *testing.T, kept *budget.Stored, m *model.Model, points []decodePoint, rate float64, why string) {
	t.Helper()
	kept.By = "gpu-check, an estimate and no measurement: weights and KV over the rate of copies on the GPU"
	report(t, finding{Name: "no decode step was measured", Text: why})
	for _, p := range points {
		read := model.BF16.Bytes(m.Params.Total-m.Params.Input) + float64(int64(p.Batch)*m.KeptBytes(p.Context, model.BF16))
		ms := read / rate * 1e3
		report(t, finding{fmt.Sprintf("token at batch %d, context %d", p.Batch, p.Context), ms, "ms", "an estimate: the time to read weights and KV once"})
		kept.Points = append(kept.Points, budget.StoredPoint{Batch: p.Batch, Context: p.Context, MS: ms})
	}
}

// deviceRate is how many bytes a second the GPU's memory moves in large copies, read
// and written, best of some rounds.
func deviceRate(t *testing.T, ctx context.Context, d gpu.Device) float64 {
	t.Helper()
	free, _, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	const copies, rounds = 8, 5
	n := min(free/4, 2*gib) &^ (mib - 1)
	from, err := d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	to, err := d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // at once: who measures next wants the memory
		if err := errors.Join(d.Free(from), d.Free(to)); err != nil {
			t.Error(err)
		}
	}()
	s, best := stream(t, d), 0.0
	for range rounds {
		start := time.Now()
		for range copies {
			if err := s.OnDevice(to, from, n); err != nil {
				t.Fatal(err)
			}
		}
		if err := finish(s); err != nil {
			t.Fatal(err)
		}
		best = max(best, 2*copies*float64(n)/time.Since(start).Seconds())
		if ctx.Err() != nil {
			break
		}
	}
	return best
}

// nameOf is what NVML calls the device, or CUDA where NVML does not know it.
func nameOf(t *testing.T, d gpu.Device) string {
	t.Helper()
	m := openMonitor(t)
	defer m.Close()
	n, _ := m.Count()
	for i := range n {
		if id, err := m.PCIBusID(i); err == nil && id == d.Info().PCIBusID {
			if name, err := m.Name(i); err == nil && m.Source() == "nvml" {
				return name
			}
		}
	}
	return d.Info().Name
}

// readBack asks for a budget as spillway fio does, of each point.
func readBack(t *testing.T, path string, kept *budget.Stored) {
	t.Helper()
	for _, p := range kept.Points {
		ask := budget.Ask{From: path, Batch: strconv.Itoa(p.Batch), Context: strconv.Itoa(p.Context)}
		b, err := ask.Resolve(t.Context(), budget.Machine{})
		if err != nil {
			t.Fatal(err)
		}
		if ms := b.PerToken.Seconds() * 1e3; b.Source != budget.Measurement || ms < p.MS*0.999 || ms > p.MS*1.001 || !strings.Contains(b.Where, kept.By) {
			t.Errorf("read back: %+v, want %g ms", b, p.MS)
		}
		if roof, err := (&budget.Ask{Model: kept.Model, GPU: kept.GPU, Batch: ask.Batch, Context: ask.Context, Weights: kept.Weights}).Resolve(t.Context(), budget.Machine{}); err == nil {
			report(t, finding{fmt.Sprintf("roofline at batch %d, context %d", p.Batch, p.Context), roof.PerToken.Seconds() * 1e3, "ms",
				fmt.Sprintf("%.2f of what the file says", roof.PerToken.Seconds()*1e3/p.MS)})
		}
	}
	t.Logf("PASS %s is a measurement that spillway fio and spillway budget take", path)
}

// TestDecodeScript runs the script on the processor with a tiny shape, where there is
// a torch: whole, with memory for a part of the layers, and where there is no GPU.
func TestDecodeScript(t *testing.T) {
	if testing.Short() {
		t.Skip("loading torch takes long")
	}
	ask := decodeAsk{Device: "cpu", Steps: 20, Seconds: 5, Deadline: 100,
		Decoder: &model.Decoder{Layers: 4, Hidden: 64, Inner: 128, Heads: 8, KVHeads: 2, HeadDim: 16, Vocab: 128},
		Points:  []decodePoint{{4, 300}, {4, 512}, {1 << 20, 1 << 20}}}
	lines, err := decode(t.Context(), ask)
	if errors.Is(err, errNoTorch) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	wantDecoded(t, ask, lines, 4)
	kept := &budget.Stored{Model: "a tiny one", GPU: "a processor", TP: 1, PP: 1, Measured: time.Now().UTC().Truncate(time.Second)}
	keepMeasured(t, kept, lines)
	path := filepath.Join(t.TempDir(), measurement)
	if err := kept.Write(path); err != nil || len(kept.Points) != 2 || strings.Contains(kept.By, "drawn") {
		t.Fatalf("%+v, %v", kept, err)
	}
	readBack(t, path, kept)

	const layer, tables, kv = 90112, 32768, 2 * 2 * 16 * 2 // bytes of weights, and of a token in a layer
	ask.Bytes = tables + 3*(layer+4*512*kv)
	ask.Points[0] = ask.Points[1]
	if lines, err = decode(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	wantDecoded(t, ask, lines, 3)
	if keepMeasured(t, kept, lines); !strings.HasSuffix(kept.By, "batch 4 drawn out from 3 of 4 layers") {
		t.Error(kept.By)
	}
	ask.Device = "cuda"
	if lines, err := decode(t.Context(), ask); err == nil {
		t.Logf("there is a GPU: %+v", lines)
	} else if !errors.Is(err, errNoTorch) || !strings.Contains(err.Error(), "does not see a GPU") {
		t.Errorf("without a GPU: %v", err)
	}
}

// wantDecoded: two points are measured with so many layers, the third is too large.
func wantDecoded(t *testing.T, ask decodeAsk, lines []decodeLine, layers int) {
	t.Helper()
	if len(lines) != 4 || lines[0].Type != "machine" || lines[0].Layers != layers || lines[0].OfLayers != 4 {
		t.Fatalf("%+v", lines)
	}
	for i, p := range ask.Points[:2] {
		l := lines[i+1]
		if l.Type != "decode" || l.decodePoint != p || l.MedianMS <= 0 || l.P99MS < l.MedianMS || l.Steps < 10 || l.Layers != layers || l.Graph {
			t.Errorf("%+v", l)
		}
	}
	if l := lines[3]; l.Type != "skipped" || !strings.Contains(l.Why, "does not fit") {
		t.Errorf("%+v", l)
	}
}
