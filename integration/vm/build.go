package vm

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// repository is the folder of go.mod.
var repository = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil || len(out) < 2 {
		return "", fmt.Errorf("where is the repository: go list -m: %w", err)
	}
	return string(out[:len(out)-1]), nil
})

// BuildProgram builds the command pkg, a path from the repository such as "./cmd/spillway",
// into dir, with the build tags, comma-separated.
func BuildProgram(dir, pkg, tags string) (file string, err error) {
	return buildProgram(dir, pkg, "", "-tags", tags)
}

// BuildTest builds the tests of pkg.
func BuildTest(dir, pkg, tags string) (file string, err error) {
	return goBuild(dir, "", pkg, "test", "-c", "-ldflags", "-s -w", "-tags", tags)
}

func buildProgram(dir, pkg, env string, flags ...string) (string, error) {
	return goBuild(dir, env, pkg, append([]string{"build", "-ldflags", "-s -w"}, flags...)...)
}

func goBuild(dir, env, pkg string, args ...string) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Append(nil, env, pkg, args))
	file := filepath.Join(dir, fmt.Sprintf("%s-%x", filepath.Base(pkg), sum[:4]))
	cmd := exec.Command("go", append(args, "-o", file, pkg)...)
	cmd.Dir = root
	cmd.Env = os.Environ()
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %v %s: %w\n%s", args, pkg, err, out)
	}
	return file, nil
}
