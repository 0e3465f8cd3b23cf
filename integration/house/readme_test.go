package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// examplesPage has the Go examples.
const examplesPage = "docs/embedding.md"

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestExamplesCompile type-checks the Go examples that people copy.
func TestExamplesCompile(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, examplesPage))
	if err != nil {
		t.Fatal(err)
	}
	blocks := goBlock.FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Fatal(examplesPage + " has no Go example")
	}
	for _, block := range blocks {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, block[1], 0o600); err != nil {
			t.Fatal(err)
		}
		vet := exec.Command("go", "vet", file)
		vet.Dir = root
		if out, err := vet.CombinedOutput(); err != nil {
			t.Errorf("an example in %s: %v\n%s", examplesPage, err, out)
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
