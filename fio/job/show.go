package job

import "strings"

// CommandLine writes the jobs as one command line of this package, as fio's
// --showcmd does: what [global] said is repeated for each job. Names of included
// files and variables are resolved; words are quoted for a POSIX shell.
func (r *Run) CommandLine() string {
	words := []string{"spillway", "fio"}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		words = append(words, "--name="+j.Name)
		for _, s := range j.effective {
			word := "--" + s.Name
			if s.Value != "" {
				word += "=" + s.Value
			}
			words = append(words, word)
		}
		if j.walled {
			words = append(words, "--stonewall")
		}
	}
	for i, word := range words {
		words[i] = quote(word)
	}
	return strings.Join(words, " ")
}

// quote makes one word of a POSIX shell.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=./:,%+@", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
