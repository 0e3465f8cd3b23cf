package model

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestFind: a model answers to the names that people and engines use.
func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"meta-llama/Llama-3.1-8B-Instruct":       "Llama-3.1-8B bf16",
		"llama3.1-8b":                            "Llama-3.1-8B bf16",
		"meta-llama/Meta-Llama-3-70B":            "Llama-3.1-70B bf16",
		"nvidia/Llama-3.3-70B-Instruct-FP8":      "Llama-3.1-70B fp8",
		"neuralmagic/Meta-Llama-3.1-405B-FP8":    "Llama-3.1-405B fp8",
		"meta-llama/Llama-2-7b-chat-hf":          "Llama-2-7B bf16",
		"mistralai/Mistral-7B-Instruct-v0.2":     "Mistral-7B bf16",
		"mistralai/Mixtral-8x22B-Instruct-v0.1":  "Mixtral-8x22B bf16",
		"qwen2.5_72b":                            "Qwen2.5-72B bf16",
		"Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": "Qwen3-235B-A22B fp8",
		"google/gemma-3-27b-it":                  "Gemma-3-27B bf16",
		"openai/gpt-oss-120b":                    "gpt-oss-120b fp4",
		"deepseek-ai/DeepSeek-R1-0528":           "DeepSeek-R1 fp8",
		"nvidia/DeepSeek-R1-NVFP4":               "DeepSeek-R1 fp4",
		"moonshotai/Kimi-K2-Instruct-0905":       "Kimi-K2 fp8",
		"zai-org/GLM-4.6":                        "GLM-4.5 bf16",
	} {
		m, err := Find(name)
		if err != nil || m.Name+" "+m.Weights.String() != want {
			t.Errorf("%s: %+v, %v, want %s", name, m, err, want)
		}
	}
}

// TestFindGPU: a GPU answers to what NVML, its maker and people call it.
func TestFindGPU(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA H100 80GB HBM3": "H100 80GB HBM3", "h100": "H100 80GB HBM3", "NVIDIA H100 PCIe": "H100 PCIe", "NVIDIA H100 NVL": "H100 NVL",
		"NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB", "A100": "A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB": "A100-SXM4-40GB", "NVIDIA A100 80GB PCIe": "A100 80GB PCIe",
		"NVIDIA H200": "H200", "NVIDIA H200 NVL": "H200 NVL", "NVIDIA H20": "H20", "NVIDIA H20-3e": "H20-3e", "NVIDIA L4": "L4", "NVIDIA L40S": "L40S",
		"NVIDIA A10": "A10", "NVIDIA A10G": "A10G", "NVIDIA B200": "B200", "NVIDIA GB200": "GB200", "NVIDIA GeForce RTX 4090": "GeForce RTX 4090", "rtx4090": "GeForce RTX 4090",
		"AMD Instinct MI300X": "MI300X", "mi300x": "MI300X",
	} {
		g, err := FindGPU(name)
		if err != nil || g.Name != want {
			t.Errorf("%s: %+v, %v, want %s", name, g, err, want)
		}
	}
	for _, slice := range []string{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", "", "NVIDIA"} {
		if g, err := FindGPU(slice); err == nil {
			t.Errorf("%q is %s", slice, g.Name)
		}
	}
}

// TestUnknown: a typo is told what it is near to, nonsense is not.
func TestUnknown(t *testing.T) {
	for name, want := range map[string]string{"Llama-3.1-8": "Llama-3.1-8B", "qwen3-33b": "Qwen3-32B", "deepseek-r2": "DeepSeek-R1", "mixtrall-8x7b": "Mixtral-8x7B"} {
		_, err := Find(name)
		var unknown *UnknownError
		if !errors.As(err, &unknown) || !slices.Contains(unknown.Nearest, want) || !strings.Contains(err.Error(), want) || unknown.What != "model" {
			t.Errorf("%s: %v, want %s near", name, err, want)
		}
	}
	for name, want := range map[string]string{"H10": "H100", "L40": "L40S", "B20": "B200", "MI300": "MI300X"} {
		_, err := FindGPU(name)
		var unknown *UnknownError
		if !errors.As(err, &unknown) || !slices.Contains(unknown.Nearest, want) {
			t.Errorf("%s: %v, want %s near", name, err, want)
		}
	}
	if _, err := Find("xyzzy-plugh-frotz-nitfol"); err == nil || strings.Contains(err.Error(), "near") {
		t.Error(err)
	}
}

// TestTables: names are unique, and every GPU has what a roofline needs.
func TestTables(t *testing.T) {
	seen := map[string]string{}
	for i := range models {
		for _, name := range append([]string{models[i].name}, models[i].also...) {
			key, _ := modelKey(name)
			if seen[key] != "" {
				t.Errorf("%s and %s are one name", name, seen[key])
			}
			seen[key] = name
		}
	}
	clear(seen)
	for i := range gpus {
		g := &gpus[i]
		for _, name := range append([]string{g.Name}, g.also...) {
			if key := gpuKey(name); seen[key] != "" {
				t.Errorf("%s and %s are one name", name, seen[key])
			} else {
				seen[key] = name
			}
		}
		if g.GBps < 100 || g.BF16TFLOPS < 10 || g.LinkGBps == 0 || g.MemoryGB == 0 || g.Source == "" || g.FP8TFLOPS != 0 && g.FP8TFLOPS < 1.9*g.BF16TFLOPS {
			t.Errorf("%+v", g.GPU)
		}
	}
	if len(GPUNames()) < 14 {
		t.Errorf("%d GPUs", len(GPUNames()))
	}
}
