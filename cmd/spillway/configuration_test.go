package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/spillway-kv/spillway/cmd/spillway/config"
)

// configurationPage is made from the fields of config.File.
const configurationPage = "../../docs/configuration.md"

// TestConfigurationPage fails when the page is not what the configuration is; with
// -update, or go generate, it writes it anew. So there is no key without a line.
func TestConfigurationPage(t *testing.T) {
	checkPage(t, configurationPage, configurationText(t))
}

// checkPage compares a page with what it should be, or writes it.
func checkPage(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil || string(page) != text {
		t.Errorf("%s is stale (%v): go generate ./cmd/spillway writes it anew", path, err)
	}
}

const configurationHead = `# Configuration of the daemon

Made from the configuration itself; ` + "`go generate ./cmd/spillway`" + ` writes it anew, and a test
fails when it is stale.

` + "`spillway serve --config FILE`" + ` reads a file in TOML. A key that is not listed here is an error, with
its line. ` + "`spillway config check FILE`" + ` says whether the daemon could start with it, ` + "`spillway config show FILE`" + `
prints every setting as it takes effect. Flags of ` + "`serve`" + ` override the file.

Sizes are written as "64KiB" or "1.5GiB" (KiB, MiB, GiB, TiB count by 1024; kB, MB, GB, TB by 1000), times as
"30ms", "2s" or "1m".

On SIGHUP the daemon reads the file again. Keys marked *reload* then take effect; a change of any other is
logged with "needs a restart" and ignored until then. A file that is wrong changes nothing. Tokens are read anew
from their files. Bounds and tokens hold for connections and namespaces that are opened from then on.

` + "```toml" + `
[socket]
group = "spillway"                  # its members may connect

[[store]]                           # once for each drive
dir = "/nvme0/kv"
capacity = "800GiB"

[[store]]
dir = "/nvme1/kv"
capacity = "800GiB"
optional = true                     # start without it if this drive is broken

[[namespace]]
name = "llama-3-70b"
token_file = "/etc/spillway/llama.token"
share = 3
quota = "1TiB"

[gate]
budget = "30ms"

[admin]
address = "127.0.0.1:9470"
` + "```\n"

func configurationText(t *testing.T) string {
	var b strings.Builder
	b.WriteString(configurationHead)
	defaults, err := config.Parse("", []byte("[[store]]\n[[namespace]]\n"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := defaults.TOML()
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	for section := range reflect.TypeFor[config.File]().Fields() {
		name, typ := section.Tag.Get("toml"), section.Type
		heading := "[" + name + "]"
		table, _ := values[name].(map[string]any)
		if typ.Kind() == reflect.Slice {
			typ, heading = typ.Elem(), "[["+name+"]]"
			table = values[name].([]any)[0].(map[string]any)
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n| key | default | reload | meaning |\n|---|---|---|---|\n", heading,
			upperFirst(meaningOf(t, reflect.TypeFor[config.File](), section.Name)))
		for f := range typ.Fields() {
			key, meaning := f.Tag.Get("toml"), meaningOf(t, typ, f.Name)
			if key == "" || meaning == "" {
				t.Errorf("%v.%s has no key or no comment", typ, f.Name)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", key, defaultCell(name+"."+key, table[key]), f.Tag.Get("reload"), cell(meaning))
		}
	}
	return b.String()
}

// defaultCell shows a default; what depends on the machine is said in words.
func defaultCell(key string, value any) string {
	switch {
	case key == "limits.region_bytes":
		return "the machine's memory"
	case key == "store.capacity", value == "", value == nil:
		return ""
	case reflect.TypeOf(value).Kind() == reflect.Slice:
		return ""
	}
	if text, ok := value.(string); ok {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprint(value)
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
