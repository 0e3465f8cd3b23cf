// Package gputest tests what implements the interfaces of package gpu: the same
// suite for the fake, for the real path against a stand-in for CUDA, and for a
// real GPU.
package gputest

import (
	_ "embed" // of the stand-ins' sources
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/libcuda.c
var cudaSource []byte

//go:embed testdata/libnvidia-ml.c
var nvmlSource []byte

// CUDA builds a stand-in for the driver's library, with these macros
// (testdata/libcuda.c), and returns its path. It skips the test where there is
// no gcc.
func CUDA(t testing.TB, macros ...string) string {
	t.Helper()
	return build(t, "libcuda.so.1", cudaSource, macros)
}

// NVML is CUDA for NVML. A process may bind only one of them.
func NVML(t testing.TB, macros ...string) string {
	t.Helper()
	return build(t, "libnvidia-ml.so.1", nvmlSource, macros)
}

func build(t testing.TB, name string, source []byte, macros []string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: nothing to build a stand-in for " + name + " with")
	}
	dir := t.TempDir()
	file, library := filepath.Join(dir, "stub.c"), filepath.Join(dir, name)
	if err := os.WriteFile(file, source, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-std=gnu11", "-Wall", "-Werror", "-Wno-unused-function", "-O1", "-fPIC", "-shared", "-pthread", "-o", library, file}
	for _, m := range macros {
		args = append(args, "-D"+m)
	}
	if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return library
}
