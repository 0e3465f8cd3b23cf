package house

import (
	"bytes"
	"regexp"
	"strings"
)

// ban is a pattern that must not occur in a line. The patterns are written in
// halves, so that this file passes its own check.
type ban struct {
	pattern *regexp.Regexp
	text    string
}

func (b ban) search(f *File) []Finding {
	var found []Finding
	number := 0
	for line := range bytes.Lines(f.Text) {
		number++
		if b.pattern.Match(line) {
			found = append(found, Finding{f.Path, number, b.text})
		}
	}
	return found
}

func anyOf(words ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + strings.Join(words, "|"))
}

var notes = []ban{
	{regexp.MustCompile(`\b(FIX` + `ME|X` + `XX)\b`),
		"a note to self reached the branch: mend it, or write TO" + "DO(#issue)"},
	{regexp.MustCompile(`\bTO` + `DO\b(?:[^(]|\([^#]|\(#\D|$)`),
		"a note without an issue: write TO" + "DO(#123): and what is missing"},
}

// checkNotes bans notes that nobody will find again.
func checkNotes(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Files {
		if inTestdata(f.Path) {
			continue
		}
		for _, b := range notes {
			found = append(found, b.search(f)...)
		}
	}
	return found
}

var words = []ban{
	{anyOf(`proxy\.`+`golang\.org`, `(sum|index)\.`+`golang\.org`, `py`+`pi\.org`, `python`+`hosted\.org`,
		`npm`+`js\.(org|com)`, `crates`+`\.io`, `docker`+`\.io`, `ghcr`+`\.io`, `quay`+`\.io`, `ruby`+`gems\.org`,
		`ana`+`conda\.org`, `maven`+`\.org`, `hugging`+`face\.co`, `deb\.`+`debian\.org`, `jsdel`+`ivr\.net`,
		`\bGO`+`PROXY\b`, `index`+`-url\b`),
		"names a package registry: the tool's own default serves everyone, name the package alone"},
	{anyOf(`(^|[^\w.$}])/wo`+`rk/`, `(^|[^\w.$}])/(ro`+`ot|ho`+`me)/\w`, `\bsub`+`agents?\b`, `\bwork`+`places?\b`),
		"names the place where it was written: use a path relative to the repository, and let the project speak of itself alone"},
}

// checkWords bans the names of registries and of anybody's machine.
func checkWords(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Files {
		for _, b := range words {
			found = append(found, b.search(f)...)
		}
	}
	return found
}
