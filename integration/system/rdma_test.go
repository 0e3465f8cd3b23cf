package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// build builds the command otherwise than by default.
func build(t *testing.T, env []string, tags string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "spillway")
	cmd := exec.Command("go", "build", "-tags", tags, "-o", binary, "./cmd/spillway")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build -tags %s, %s: %v\n%s", tags, env, err, out)
	}
	return binary
}

// verbsBuild is a build that can use RDMA devices.
func verbsBuild(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("../../.ci/verbs-headers", "go").CombinedOutput(); err != nil {
		t.Skipf("no such build here: %s", out)
	}
	return build(t, nil, "verbs")
}

// librariesOf are the files of the libraries that a binary is linked with.
func librariesOf(t *testing.T, binary string) (files []string) {
	t.Helper()
	out, _ := exec.Command("ldd", binary).CombinedOutput() // fails for a static one
	for _, m := range regexp.MustCompile(`(?m)(/[^ ]+\.so[^ ]*) \(0x`).FindAllStringSubmatch(string(out), -1) {
		files = append(files, m[1])
	}
	return files
}

// alone says how to run a binary where there is no file but its own, those of the libraries
// that it is linked with, and a folder.
func alone(t *testing.T, binary, dir string) (under []string) {
	t.Helper()
	root := t.TempDir()
	for _, file := range append(librariesOf(t, binary), binary) {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, file), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --bind "$1" "$2$1" && exec chroot "$2" "$3" serve --config "$4"`, "sh", dir, root, binary}
}

// startRDMA starts a node of a pool with a binary, on a machine as it is or alone.
func startRDMA(t *testing.T, binary, transport string, isAlone bool) *pooled {
	t.Helper()
	p := &pooled{newOperated(t, ""), "a", "[pool]\nid = \"test\"\nname = \"a\"\nbind = \"127.0.0.1:0\"\n" + transport}
	p.write(p.config)
	args := []string{binary, "serve", "--config", p.file}
	if isAlone {
		args = append(alone(t, binary, p.dir), p.file)
	}
	p.startAs(args...)
	p.says("msg=serving")
	return p
}

const byTCP = "blocks of other nodes come by tcp, not by rdma: there is no RDMA here: "

// wantTCP wants a node to have said once why it has no RDMA, to say the same to its
// operator, and to keep blocks like any other.
func (p *pooled) wantTCP(why string) {
	p.t.Helper()
	said := ""
	for line := range strings.Lines(p.log.String()) {
		if _, text, ok := strings.Cut(line, byTCP); ok {
			said += text
		}
	}
	if countLines(p.log.String(), "not by rdma") != 1 || !strings.Contains(said, why) {
		p.t.Errorf("want %q once:\n%s", why, p.log)
	}
	s := p.pool("status", "--json").want(p.t, 0).object(p.t)
	if s["transport"] != "tcp" || !strings.Contains(s["transport_why"].(string), why) {
		p.t.Errorf("its status is by %v: %v", s["transport"], s["transport_why"])
	}
	c := p.client(2)
	c.put(0, 2)
	c.all(0, 2)
	p.stop()
	p.t.Log(byTCP + strings.TrimSpace(said))
}

const wantsRDMA = "transport = \"rdma\"\n"

// TestRDMADefaultBuild: the default build wants no libibverbs, neither to be linked with nor
// to be found, says that it is without, and starts where there is none.
func TestRDMADefaultBuild(t *testing.T) {
	requireTools(t, "unshare", "chroot", "mount", "ldd")
	wantUnlinked(t, spillway)
	wantVersion(t, spillway, true, false)
	startRDMA(t, spillway, wantsRDMA, true).wantTCP("built without it")
	quiet := startRDMA(t, spillway, "", true)
	quiet.stop()
	if strings.Contains(strings.ToLower(strings.ReplaceAll(quiet.log.String(), quiet.dir, "")), "rdma") {
		t.Errorf("nobody asked for it:\n%s", quiet.log)
	}
}

// TestRDMAVerbsBuild: the build with verbs is not linked with libibverbs either. It starts
// where there is none, and where there is one but no device.
func TestRDMAVerbsBuild(t *testing.T) {
	requireTools(t, "unshare", "chroot", "mount", "ldd")
	binary := verbsBuild(t)
	wantUnlinked(t, binary)
	wantVersion(t, binary, true, true)
	startRDMA(t, binary, wantsRDMA, true).wantTCP("libibverbs.so.1")
	if devices, _ := filepath.Glob("/sys/class/infiniband/*"); len(devices) > 0 {
		t.Skipf("this machine has RDMA devices: %v", devices)
	}
	if out, err := exec.Command("ldconfig", "-p").Output(); err != nil || !strings.Contains(string(out), "libibverbs.so.1") {
		t.Skip("this machine has no libibverbs")
	}
	startRDMA(t, binary, wantsRDMA, false).wantTCP("libibverbs is here, but the kernel has no RDMA")
}

// TestRDMAWithoutCgo: a build without cgo has all but RDMA, whatever its tags, and says so.
func TestRDMAWithoutCgo(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole build")
	}
	binary := build(t, []string{"CGO_ENABLED=0"}, "verbs")
	wantUnlinked(t, binary)
	wantVersion(t, binary, false, false)
	startRDMA(t, binary, wantsRDMA, false).wantTCP("built without it")
}

func wantUnlinked(t *testing.T, binary string) {
	t.Helper()
	for _, file := range librariesOf(t, binary) {
		if strings.Contains(file, "ibverbs") {
			t.Errorf("it is linked with %s", file)
		}
	}
}

func wantVersion(t *testing.T, binary string, cgo, verbs bool) {
	t.Helper()
	v := runCommand(t, nil, binary, "version", "--json").want(t, 0).object(t)
	if v["cgo"] != cgo || v["rdma_verbs"] != verbs {
		t.Errorf("it says of itself %v", v)
	}
}
