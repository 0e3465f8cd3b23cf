package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestReadmeCompiles type-checks the Go example that people copy.
func TestReadmeCompiles(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := goBlock.FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Fatal("README.md has no Go example")
	}
	for _, block := range blocks {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, block[1], 0o600); err != nil {
			t.Fatal(err)
		}
		vet := exec.Command("go", "vet", file)
		vet.Dir = root
		if out, err := vet.CombinedOutput(); err != nil {
			t.Errorf("the example in README.md: %v\n%s", err, out)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinks wants every relative link of a page to lead to a file.
func TestLinks(t *testing.T) {
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tree.Files {
		if filepath.Ext(f.Path) != ".md" {
			continue
		}
		for _, m := range link.FindAllSubmatch(f.Text, -1) {
			if _, err := os.Stat(filepath.Join(root, f.Dir(), string(m[1]))); err != nil {
				t.Errorf("%s links to %s, which is not there", f.Path, m[1])
			}
		}
	}
}
