package vm

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed setup.sh
var setUpScript []byte

// moduleNames are loaded at boot, in this order. The checksums are needed by rdma_rxe and by
// the file systems, which do not name them as dependencies everywhere.
var moduleNames = []string{
	"virtio_pci", "virtio_console",
	"crc32_generic?", "crc32_pclmul?", "crc32c_generic?", "crct10dif_generic?",
	"rdma_rxe", "ib_uverbs", "veth", "bridge", "virtio_net", "nvme", "ext4", "xfs",
}

// programs of the host that every machine has.
var programs = []string{"ip", "rdma"}

// Image is what a machine starts with: its whole file system, in memory.
type Image struct {
	kernel kernel
	path   string
}

// Files says what an image holds besides the system: paths in the machine, to files of the
// host. With a program come the libraries that it is linked with.
type Files map[string]string

// NewImage writes an image to dir, which must outlive its machines. ErrMissing if this host
// lacks something for it.
func NewImage(dir string, files Files) (*Image, error) {
	k, err := findKernel()
	if err != nil {
		return nil, err
	}
	first, err := buildProgram(dir, "./integration/vm/init", "CGO_ENABLED=0")
	if err != nil {
		return nil, err
	}
	out, err := os.Create(filepath.Join(dir, "image.cpio"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	a := newArchive(out)
	a.entry("dev/console", modeCharDev|0o600, 0, 5, 1)
	if err := a.copy("init", first); err != nil {
		return nil, err
	}
	for _, fill := range []func(*archive) error{k.addModules, addSystem, addVerbs, files.add} {
		if err := fill(a); err != nil {
			return nil, err
		}
	}
	if err := a.close(); err != nil {
		return nil, err
	}
	return &Image{kernel: k, path: out.Name()}, out.Close()
}

func (k kernel) addModules(a *archive) error {
	files, err := k.order(moduleNames)
	if err != nil {
		return err
	}
	var order strings.Builder
	for _, file := range files {
		raw, err := readModule(file)
		if err != nil {
			return err
		}
		a.file("modules/"+moduleName(file), 0o644, raw)
		fmt.Fprintln(&order, moduleName(file))
	}
	a.file("modules/order", 0o644, []byte(order.String()))
	return nil
}

// addSystem adds a shell with the usual commands, the tools of the set-up, and users.
func addSystem(a *archive) error {
	box, err := lookPath("busybox")
	if err != nil {
		return err
	}
	if out, err := exec.Command("ldd", box).CombinedOutput(); err == nil {
		return fmt.Errorf("%w: a busybox that needs no libraries (Debian: busybox-static), this one has %s", ErrMissing, out)
	}
	if err := a.copy("bin/busybox", box); err != nil {
		return err
	}
	for _, name := range programs {
		file, err := lookPath(name)
		if err != nil {
			return err
		}
		if err := addProgram(a, "usr/bin/"+name, file); err != nil {
			return err
		}
	}
	list, err := exec.Command(box, "--list").Output()
	if err != nil {
		return fmt.Errorf("busybox --list: %w", err)
	}
	for _, name := range strings.Fields(string(list)) {
		if name != "ip" && name != "init" {
			a.link("bin/"+name, "busybox")
		}
	}
	a.file("setup.sh", 0o755, setUpScript)
	a.file("etc/passwd", 0o644, []byte("root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"))
	a.file("etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n"))
	a.file("etc/nsswitch.conf", 0o644, []byte("hosts: files\n"))
	a.file("etc/hosts", 0o644, []byte("127.0.0.1 localhost\n10.9.0.1 n1\n10.9.0.2 n2\n"))
	return nil
}

// addVerbs adds libibverbs with its driver for soft-RoCE, and what glibc loads when a thread
// is cancelled, which nothing names.
func addVerbs(a *archive) error {
	driver, err := verbsDriver()
	if err != nil {
		return err
	}
	libs, err := libraries(driver)
	if err != nil {
		return err
	}
	gcc, _ := filepath.Glob("/lib/" + filepath.Base(filepath.Dir(filepath.Dir(driver))) + "/libgcc_s.so.1")
	for _, file := range append(append(libs, gcc...), driver, "/etc/libibverbs.d/rxe.driver") {
		if err := a.copy(strings.TrimPrefix(file, "/"), file); err != nil {
			return err
		}
	}
	return nil
}

// verbsDriver is the file of libibverbs' driver for soft-RoCE.
func verbsDriver() (string, error) {
	drivers, _ := filepath.Glob("/usr/lib/*/libibverbs/librxe-*.so")
	if len(drivers) != 1 {
		return "", fmt.Errorf("%w: libibverbs with its driver for rxe (Debian: ibverbs-providers)", ErrMissing)
	}
	return drivers[0], nil
}

func (files Files) add(a *archive) error {
	for name, host := range files {
		if err := addProgram(a, strings.TrimPrefix(name, "/"), host); err != nil {
			return err
		}
	}
	return nil
}

// addProgram adds a file, and if it is a program the libraries that it needs.
func addProgram(a *archive, name, host string) error {
	if err := a.copy(name, host); err != nil {
		return err
	}
	libs, err := libraries(host)
	if err != nil {
		return err
	}
	for _, lib := range libs {
		if err := a.copy(strings.TrimPrefix(lib, "/"), lib); err != nil {
			return err
		}
	}
	return nil
}

var lddPath = regexp.MustCompile(`(?m)(?:=> |^\s+)(/\S+) \(0x`)

// libraries lists what the dynamic linker loads for a file; nothing if it is no program, or
// needs none.
func libraries(file string) ([]string, error) {
	out, err := exec.Command("ldd", file).CombinedOutput()
	if err != nil {
		return nil, nil // "not a dynamic executable"
	}
	if strings.Contains(string(out), "not found") {
		return nil, fmt.Errorf("%s lacks a library: %s", file, out)
	}
	var libs []string
	for _, m := range lddPath.FindAllStringSubmatch(string(out), -1) {
		libs = append(libs, m[1])
	}
	return libs, nil
}

// lookPath finds a program, also where only the superuser looks for it.
func lookPath(name string) (string, error) {
	if file, err := exec.LookPath(name); err == nil {
		return file, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if file, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w: the program %s", ErrMissing, name)
}
