package page

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// probe runs behind the pages, each in a frame of one width, and writes down what
// is wider than its window and which of the two drawings are seen.
const probe = `<script>
window.onload = () => {
  let found = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const d = frame.contentDocument, root = d.documentElement;
    const seen = (what) => [...d.querySelectorAll(what)].filter(e => e.getBoundingClientRect().width > 0).length;
    const out = [...d.querySelectorAll("main *")].filter(e => !e.closest(".scroll, svg") && e.getBoundingClientRect().right > root.clientWidth + 0.5);
    found.push(frame.title + ": window " + root.clientWidth + ", content " + root.scrollWidth + ", outside " + out.length + ", wide " + seen(".wide") + ", narrow " + seen(".narrow"));
  }
  document.getElementById("found").textContent = found.join("\n");
};
</script>`

// TestInABrowser loads the pages at the widths of a desktop and a phone, light and
// dark, and wants nothing wider than the window, the right drawing of the two, and
// no word on the console.
func TestInABrowser(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no Chromium here")
	}
	if testing.Short() {
		t.Skip("a browser takes seconds to start")
	}
	var b strings.Builder
	b.WriteString(`<!doctype html><meta charset="utf-8"><title>pages</title><link rel="icon" href="data:,"><pre id="found"></pre>`)
	want := 0
	for name, d := range samples(t) {
		for _, width := range []int{1280, 390} {
			fmt.Fprintf(&b, `<iframe title="%s" style="border:0;width:%dpx;height:900px" srcdoc="%s"></iframe>`, name, width, html.EscapeString(string(write(t, d))))
			want++
		}
	}
	b.WriteString(probe)
	file := filepath.Join(t.TempDir(), "pages.html")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a browser that hangs
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=5000", "--enable-logging=stderr", "--log-level=0", "--dump-dom", "file://"+file)
	var console strings.Builder
	cmd.Stderr = &console
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, console.String())
	}
	found := regexp.MustCompile(`(?s)<pre id="found">(.*?)</pre>`).FindSubmatch(dom)
	if found == nil || len(found[1]) == 0 {
		t.Fatalf("the probe found nothing; console: %s", console.String())
	}
	lines := strings.Split(strings.TrimSpace(string(found[1])), "\n")
	if len(lines) != want {
		t.Errorf("%d pages were looked at, want %d", len(lines), want)
	}
	for _, line := range lines {
		var window, content, outside, wide, narrow int
		_, numbers, _ := strings.Cut(line, ": ")
		if _, err := fmt.Sscanf(numbers, "window %d, content %d, outside %d, wide %d, narrow %d", &window, &content, &outside, &wide, &narrow); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if content > window || outside > 0 || window > 640 && narrow > 0 || window <= 640 && wide > 0 {
			t.Error(line)
		}
	}
	for line := range strings.Lines(console.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("console: %s", line)
		}
	}
}
