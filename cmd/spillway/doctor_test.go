package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-kv/spillway/cluster/transport/rdma/fabric"
	"github.com/spillway-kv/spillway/cmd/spillway/doctor"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/engine/device"
)

// calm is the real machine on an allowed file system, so that nothing is bad
// wherever the test runs.
func calm(change func(*device.Probed)) *doctor.Machine {
	m := doctor.This()
	m.Probe = func(dir string) (device.Probed, error) {
		p, err := device.Probe(dir)
		p.Allowed, p.InMemory, p.NoDirect, p.Facts.FileSystem = true, false, nil, "ext4"
		if change != nil {
			change(&p)
		}
		return p, err
	}
	m.Root = "/does/not/exist"
	return &m
}

func TestDoctor(t *testing.T) {
	dir, _ := newStore(t)
	files := func() string { // making and removing a file changes the time of the directory
		_, rest, _ := strings.Cut(tree(t, dir), "\n")
		return rest
	}
	before := files()
	got := process{t: t, machine: calm(nil)}.run("doctor", dir).want(t, exitPass, "nobody has it open", "")
	for line := range strings.Lines(got.stdout) {
		if !strings.HasPrefix(line, "ok  ") && !strings.HasPrefix(line, "warn") && !strings.HasPrefix(line, "      ") {
			t.Errorf("odd line %q", line)
		}
	}
	v := process{t: t, machine: calm(nil)}.run("doctor", "--json", dir).want(t, exitPass, "", "").object(t, "doctor")
	if v["bad"] != 0.0 || len(v["checks"].([]any)) < 10 {
		t.Errorf("got %v", v)
	}
	if after := files(); after != before {
		t.Errorf("the doctor changed\n%s\nto\n%s", before, after)
	}
	bad := calm(func(p *device.Probed) { p.InMemory = true })
	process{t: t, machine: bad}.run("doctor", dir).want(t, exitError, "mend: ", "1 checks are bad")
	v = process{t: t, machine: bad}.run("doctor", "--json", dir).want(t, exitError, "", `"code":1`).object(t, "doctor")
	if v["bad"] != 1.0 {
		t.Errorf("got %v", v)
	}
}

// TestDoctorConfig: what a configuration wants of RDMA is judged, what nobody wants is not.
func TestDoctorConfig(t *testing.T) {
	m := calm(nil)
	m.VerbsBuilt, m.Verbs = true, func() ([]fabric.Port, error) { return nil, fmt.Errorf("%w: no device", fabric.ErrNone) }
	dir := t.TempDir()
	store := fmt.Sprintf("[[store]]\ndir = %q\n", dir)
	for text, code := range map[string]exitCode{"": exitPass, "[pool]\nid = \"p\"\n": exitPass, "[pool]\nid = \"p\"\ntransport = \"rdma\"\n": exitError} {
		got := process{t: t, machine: m}.run("doctor", "--config", write(t, "c.toml", store+text), dir).want(t, code, "there is no RDMA here: no device", "")
		if line := "bad   RDMA "; strings.Contains(got.stdout, line) != (code == exitError) {
			t.Errorf("%s: %s", text, got.stdout)
		}
	}
	process{t: t, machine: m}.run("doctor", "--config", "/none", dir).want(t, exitError, "", "/none")
}

// TestDoctorStores: without a directory every store of the configuration is looked at, each
// by its own capacity; with one, that alone.
func TestDoctorStores(t *testing.T) {
	m := calm(nil)
	for stores := range 4 {
		var dirs []string
		var text strings.Builder
		for i := range stores {
			dirs = append(dirs, t.TempDir())
			fmt.Fprintf(&text, "[[store]]\ndir = %q\ncapacity = %q\n", dirs[i], []string{"1MiB", "8000TiB", "2MiB"}[i])
		}
		file := write(t, "c.toml", text.String())
		visit := func(code exitCode, dirs []string, args ...string) {
			t.Helper()
			got := process{t: t, machine: m}.run(append([]string{"doctor", "--json", "--config", file}, args...)...).want(t, code, "", "")
			lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
			if len(lines) != len(dirs) {
				t.Fatalf("%d objects for %d directories: %s", len(lines), len(dirs), got.stdout)
			}
			for i, line := range lines {
				if v := object(t, line, "doctor"); v["dir"] != dirs[i] || (v["bad"] != 0.0) != (code == exitError && (i == 1 || len(dirs) == 1)) {
					t.Errorf("object %d is of %v with %v bad, want %s", i, v["dir"], v["bad"], dirs[i])
				}
			}
		}
		elsewhere := t.TempDir()
		visit(exitPass, []string{elsewhere}, elsewhere)
		visit(exitError, []string{elsewhere}, "--capacity", "8000TiB", elsewhere)
		switch stores {
		case 0:
			process{t: t, machine: m}.run("doctor", "--config", file).want(t, exitUsage, "", "no directory to look at")
			continue
		case 1:
			visit(exitPass, dirs)
		default:
			visit(exitError, dirs)
		}
		out := process{t: t, machine: m}.run("doctor", "--config", file, "--capacity", "1MiB").want(t, exitPass, "", "").stdout
		for _, dir := range dirs {
			if has := strings.Contains(out, "store "+dir+"\n"); has != (stores > 1) {
				t.Errorf("%d stores, a heading for %s: %v\n%s", stores, dir, has, out)
			}
		}
	}
	process{t: t, machine: m}.run("doctor").want(t, exitUsage, "", "give DIR, or --config")
}

// TestDoctorElsewhere: no store is made, whatever is asked.
func TestDoctorElsewhere(t *testing.T) {
	empty := t.TempDir()
	process{t: t, machine: calm(nil)}.run("doctor", "--capacity", "1MiB", empty).want(t, exitPass, "no store yet", "")
	process{t: t, machine: calm(nil)}.run("doctor", "--capacity", "8000TiB", empty).want(t, exitError, "a new store must fit", "")
	process{t: t, machine: calm(nil)}.run("doctor", filepath.Join(empty, "new")).want(t, exitPass, "is not there yet", "")
	process{t: t, machine: calm(nil)}.run("doctor", filepath.Join(empty, "a", "b")).want(t, exitError, "mkdir -p", "")
	if entries, err := os.ReadDir(empty); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
	file := write(t, "photo.jpg", "x")
	process{t: t, machine: calm(nil)}.run("doctor", filepath.Dir(file)).want(t, exitError, `"photo.jpg" and no store file`, "")
	dir, _ := newStore(t)
	if err := os.WriteFile(filepath.Join(dir, "SPILLWAY"), []byte("SPWYSTO1 and nonsense, long enough"), 0o600); err != nil {
		t.Fatal(err)
	}
	process{t: t, machine: calm(nil)}.run("doctor", dir).want(t, exitError, "SPILLWAY at offset", "")
}

// TestDoctorLive: a store in use is told from one that is not, and goes on.
func TestDoctorLive(t *testing.T) {
	dir, block := newStore(t)
	s, err := engine.Open(engine.Options{Dir: dir, BufferedIO: true, AnyFileSystem: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	process{t: t, machine: calm(nil)}.run("doctor", dir).want(t, exitPass, "in use by pid", "")
	ns, err := s.FindNamespace("default")
	if err != nil {
		t.Fatal(err)
	}
	gets := []engine.GetItem{{Key: engine.Key{Bytes: []byte("key-1")}, Dst: [][]byte{make([]byte, len(block))}}}
	if err := ns.Get(gets, engine.GetOptions{}); err != nil || gets[0].Status != engine.Hit {
		t.Errorf("the store is disturbed: %v, %v", err, gets[0])
	}
}

// TestDoctorHere runs the command as it is on this machine, as root and, where
// that can be, as nobody.
func TestDoctorHere(t *testing.T) {
	dir := t.TempDir()
	got := process{t: t}.run("doctor", dir)
	if got.code != exitPass && got.code != exitError || !strings.Contains(got.stdout, "kernel") {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if os.Getuid() != 0 {
		return
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not installed")
	}
	binary := filepath.Join("/tmp", filepath.Base(t.TempDir())+"-doctor.test") // where nobody may execute it
	self, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(binary, self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(binary)
	cmd := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", binary, "-test.run", "^$")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "SPILLWAY_TEST_DOCTOR="+dir)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sudo chown") && !strings.Contains(string(out), "permission denied") {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}
