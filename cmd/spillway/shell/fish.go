package shell

import (
	"fmt"
	"strings"
)

const fishLogic = `# Writes the command that the words before the cursor name, and how many arguments follow it.
function __spillway_where
    set -l where ''
    set -l count 0
    set -l flag ''
    set -l plain ''
    for word in (commandline -opc)[2..-1]
        if test -n "$flag"
            set flag ''
        else if test -z "$plain"; and test "x$word" = x--
            set plain 1
        else if test -z "$plain"; and string match -q -- '-*' $word
            if contains -- $word (__spillway_valued "$where")
                set flag $word
            end
        else if contains -- (string trim "$where $word") $__spillway_commands
            set where (string trim "$where $word")
        else
            set count (math $count + 1)
        end
    end
    echo $where
    echo $count
end

# Is the cursor within this command; with a number: at this argument; with a number and more: at it or behind it.
function __spillway_at
    set -l found (__spillway_where)
    test "$found[1]" = "$argv[1]"; or return 1
    test (count $argv) -lt 2; and return 0
    test $found[2] -eq (math $argv[2] - 1); and return 0
    test (count $argv) -ge 3 -a $found[2] -ge (math $argv[2] - 1)
end

complete -c spillway -f
`

func fish(commands []command) string {
	var b strings.Builder
	b.WriteString("# fish completion for spillway; written by: spillway completion fish\n")
	b.WriteString("# For this shell: spillway completion fish | source\n")
	b.WriteString("# For all: spillway completion fish > ~/.config/fish/completions/spillway.fish\n\n")
	var paths []string
	for _, c := range commands {
		if c.path != "" {
			paths = append(paths, fishQuote(c.path))
		}
	}
	fmt.Fprintf(&b, "set -g __spillway_commands %s\n\n", strings.Join(paths, " "))
	b.WriteString("# The flags of a command that take a value.\nfunction __spillway_valued\n    switch \"$argv[1]\"\n")
	for _, c := range commands {
		if valued := c.valued(); len(valued) > 0 {
			fmt.Fprintf(&b, "        case %s\n            printf '%%s\\n' %s\n", fishQuote(c.path), strings.Join(valued, " "))
		}
	}
	b.WriteString("    end\nend\n\n")
	b.WriteString(fishLogic)
	for _, c := range commands {
		writeFish(&b, c)
	}
	return b.String()
}

func writeFish(b *strings.Builder, c command) {
	at := func(more string) string { return fishQuote("__spillway_at " + fishQuote(c.path) + more) }
	for _, s := range c.subs {
		fmt.Fprintf(b, "complete -c spillway -n %s -a %s -d %s\n", at(" 1"), s.name, fishQuote(oneLine(s.help)))
	}
	for _, f := range c.flags {
		fmt.Fprintf(b, "complete -c spillway -n %s -l %s", at(""), strings.TrimPrefix(f.name, "--"))
		if f.short != "" {
			fmt.Fprintf(b, " -s %s", strings.TrimPrefix(f.short, "-"))
		}
		if f.takes {
			b.WriteString(" -r" + fishValue(f.value))
		}
		fmt.Fprintf(b, " -d %s\n", fishQuote(oneLine(f.help)))
	}
	for i, v := range c.args {
		more := fmt.Sprintf(" %d", i+1)
		if c.many && i == len(c.args)-1 {
			more += " more"
		}
		if v != "" {
			fmt.Fprintf(b, "complete -c spillway -n %s%s\n", at(more), fishValue(v))
		}
	}
}

func fishValue(v value) string {
	switch v {
	case "":
		return " -f"
	case kindFile:
		return " -F"
	case kindDir:
		return " -f -a '(__fish_complete_directories (commandline -ct))'"
	}
	return " -f -a " + fishQuote(string(v))
}

// fishQuote makes one word: within single quotes fish knows \\ and \'.
func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
