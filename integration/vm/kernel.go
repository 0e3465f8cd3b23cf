package vm

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kernel is a Linux kernel and its modules, unpacked or installed.
type kernel struct {
	image   string            // the file to boot
	release string            // such as "6.1.0-57-amd64"
	modules map[string]string // name, with underscores, to file
	builtin map[string]bool   // names of modules that the kernel has in itself
}

// kernelDirs are the folders that may hold a kernel, best first: what the environment names,
// what .ci/vm has unpacked, this machine's own.
func kernelDirs() []string {
	if dir := os.Getenv("SPILLWAY_VM_KERNEL"); dir != "" {
		return []string{dir}
	}
	var dirs []string
	if cache, err := os.UserCacheDir(); err == nil {
		dirs, _ = filepath.Glob(filepath.Join(cache, "spillway", "vm", "linux-image-*"))
		slices.Reverse(dirs)
	}
	return append(dirs, "/")
}

// findKernel takes the first kernel that has an RDMA device in software.
func findKernel() (kernel, error) {
	for _, dir := range kernelDirs() {
		images, _ := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
		slices.Reverse(images)
		for _, image := range images {
			release := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
			k, err := readKernel(image, filepath.Join(dir, "lib", "modules", release))
			if err == nil && k.modules["rdma_rxe"] != "" {
				return k, nil
			}
		}
	}
	return kernel{}, fmt.Errorf("%w: no Linux kernel with the module rdma_rxe: run .ci/vm, which downloads one (Debian), or name its folder in SPILLWAY_VM_KERNEL", ErrMissing)
}

func readKernel(image, modules string) (kernel, error) {
	k := kernel{image: image, release: filepath.Base(modules), modules: map[string]string{}, builtin: map[string]bool{}}
	f, err := os.Open(image) // some systems let only the superuser read it
	if err != nil {
		return k, err
	}
	f.Close()
	if text, err := os.ReadFile(filepath.Join(modules, "modules.builtin")); err == nil {
		for line := range strings.Lines(string(text)) {
			k.builtin[moduleName(strings.TrimSpace(line))] = true
		}
	}
	err = filepath.WalkDir(filepath.Join(modules, "kernel"), func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.Contains(filepath.Base(name), ".ko") {
			k.modules[moduleName(name)] = name
		}
		return err
	})
	return k, err
}

// moduleName is "crc32c_intel" for ".../crc32c-intel.ko.xz".
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// order lists the files of the modules wanted and of those that they depend on, in the order
// in which they can be loaded. A wanted name that ends in "?" may be missing.
func (k kernel) order(wanted []string) (files []string, err error) {
	seen := map[string]bool{}
	var visit func(name string, optional bool) error
	visit = func(name string, optional bool) error {
		file := k.modules[name]
		switch {
		case seen[name], k.builtin[name], file == "" && optional:
			return nil
		case file == "":
			return fmt.Errorf("kernel %s has no module %s", k.release, name)
		}
		seen[name] = true
		depends, err := depends(file)
		if err != nil {
			return err
		}
		for _, other := range depends {
			if err := visit(other, false); err != nil {
				return err
			}
		}
		files = append(files, file)
		return nil
	}
	for _, name := range wanted {
		bare, optional := strings.CutSuffix(name, "?")
		if err := visit(bare, optional); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// depends reads the names of the modules that a module needs.
func depends(file string) ([]string, error) {
	raw, err := readModule(file)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(strings.NewReader(string(raw)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s: not a module", file)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}

// readModule gives a module's bytes, unpacked.
func readModule(file string) ([]byte, error) {
	tool := map[string]string{".xz": "xz", ".zst": "zstd", ".gz": "gzip"}[filepath.Ext(file)]
	if tool == "" {
		return os.ReadFile(file)
	}
	out, err := exec.Command(tool, "-dc", file).Output()
	if err != nil {
		return nil, fmt.Errorf("%s -dc %s: %w", tool, file, err)
	}
	return out, nil
}
