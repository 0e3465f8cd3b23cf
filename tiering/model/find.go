package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// UnknownError says that a name is in no table.
type UnknownError struct {
	What    string   // model or GPU
	Name    string   // as it was asked for
	Nearest []string // names of the table that look like it, best first
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("no %s %q is known", e.What, e.Name)
	if len(e.Nearest) > 0 {
		text += "; near are " + strings.Join(e.Nearest, ", ")
	}
	return text
}

// Names are the models of the table, in its order.
func Names() (names []string) {
	for i := range models {
		names = append(names, models[i].name)
	}
	return names
}

// Find gives the model of a name, however it is written: with or without its maker
// in front, in any case, with -Instruct and the like behind. A precision in the name
// (-FP8) is that of the weights. The error is an *UnknownError.
func Find(name string) (*Model, error) {
	plain, weights := modelKey(name)
	var all []string
	for i := range models {
		r := &models[i]
		for _, known := range append([]string{r.name}, r.also...) {
			key, _ := modelKey(known)
			if key == plain && plain != "" {
				return r.shape.model(r.name, weights.or(r.weights)), nil
			}
			all = append(all, known)
		}
	}
	return nil, unknown("model", name, all)
}

// The words of a model's name that do not tell its shape, and those that tell the
// precision of weights.
var (
	modelNoise      = []string{"meta", "nvidia", "google", "qwen", "instruct", "chat", "it", "base", "hf", "preview", "thinking", "v0", "v1", "0528", "0324", "2507", "0905", "dynamic"}
	modelPrecisions = map[string]Precision{"bf16": BF16, "fp16": BF16, "fp8": FP8, "fp4": FP4, "nvfp4": FP4, "mxfp4": FP4}
)

// modelKey is what two spellings of one name share, and the precision in it.
func modelKey(name string) (key string, weights Precision) {
	if at := strings.LastIndexByte(name, '/'); at >= 0 {
		name = name[at+1:]
	}
	for i, word := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' || r == ' ' || r == ':' }) {
		if p, ok := modelPrecisions[word]; ok {
			weights = p
			continue
		}
		if i > 0 && strings.HasPrefix(word, "v0.") || slices.Contains(modelNoise, word) {
			continue
		}
		key += word
	}
	return strings.ReplaceAll(key, ".", ""), weights
}

// GPUNames are the GPUs of the table, in its order.
func GPUNames() (names []string) {
	for i := range gpus {
		names = append(names, gpus[i].Name)
	}
	return names
}

// GPUWords are names of the same GPUs without a space, as shells want them.
func GPUWords() (words []string) {
	for i := range gpus {
		r := &gpus[i]
		for _, name := range append(slices.Clone(r.also), r.Name, gpuKey(r.Name)) {
			if !strings.Contains(name, " ") {
				words = append(words, name)
				break
			}
		}
	}
	return words
}

// FindGPU gives the GPU of a name, as NVML writes it or shorter: H100, NVIDIA
// H100 80GB HBM3. A slice of a GPU (MIG) is not found: its bandwidth is not the
// whole's. The error is an *UnknownError.
func FindGPU(name string) (*GPU, error) {
	var all []string
	for i := range gpus {
		r := &gpus[i]
		for _, known := range append([]string{r.Name}, r.also...) {
			if key := gpuKey(name); key != "" && gpuKey(known) == key {
				g := r.GPU
				return &g, nil
			}
			all = append(all, known)
		}
	}
	return nil, unknown("GPU", name, all)
}

// gpuKey is what two spellings of one name share.
func gpuKey(name string) (key string) {
	for _, word := range strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' || r == ' ' }) {
		switch word {
		case "nvidia", "amd", "tesla", "geforce", "instinct":
		default:
			key += word
		}
	}
	return key
}

const nearestMax = 3

// unknown names what looks like name.
func unknown(what, name string, known []string) *UnknownError {
	e := &UnknownError{What: what, Name: name}
	if name == "" {
		return e
	}
	type near struct {
		name     string
		distance int
	}
	var found []near
	for _, k := range known {
		found = append(found, near{k, distance(strings.ToLower(name), strings.ToLower(k))})
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	for _, f := range found[:min(nearestMax, len(found))] {
		if f.distance <= max(2, len(f.name)/2) {
			e.Nearest = append(e.Nearest, f.name)
		}
	}
	return e
}

// distance is the number of letters to add, drop or change (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
