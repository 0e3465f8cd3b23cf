// Package shell writes completion scripts from the model of the command line.
package shell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	tokens "github.com/spillway-kv/spillway/tiering/model"
)

// Shells are those that Script knows.
var Shells = []string{"bash", "zsh", "fish"}

// Script is the completion script of app for one of Shells.
func Script(app *kong.Application, shell string) (string, error) {
	commands := model(app)
	switch shell {
	case "bash":
		return bash(commands), nil
	case "zsh":
		return zsh(commands), nil
	case "fish":
		return fish(commands), nil
	}
	return "", fmt.Errorf("no completion for %q, only for %s", shell, strings.Join(Shells, ", "))
}

// value says what may stand in a place: kindFile, kindDir, words with a space
// between them, or anything ("").
type value string

const (
	kindFile value = "file"
	kindDir  value = "dir"
)

// command is a command line up to a point, and what may follow.
type command struct {
	path  string // without the program's name; "" for the program
	subs  []option
	flags []option
	args  []value
	many  bool // the last argument may be repeated
}

// option is a word that may follow: a command or a flag.
type option struct {
	name  string // "put", "--dir"
	short string // "-o", or ""
	help  string
	takes bool  // a flag with a value
	value value // of a flag
}

// names are all that the option answers to.
func (o option) names() []string {
	if o.short == "" {
		return []string{o.name}
	}
	return []string{o.name, o.short}
}

func model(app *kong.Application) []command {
	var all []command
	var walk func(n *kong.Node, path string)
	walk = func(n *kong.Node, path string) {
		c := command{path: path}
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				c.flags = append(c.flags, flagOption(f))
			}
		}
		for _, arg := range n.Positional {
			c.args = append(c.args, valueOf(arg))
			c.many = arg.IsSlice()
		}
		for _, child := range n.Children {
			if !child.Hidden {
				c.subs = append(c.subs, option{name: child.Name, help: child.Help})
			}
		}
		all = append(all, c)
		for _, child := range n.Children {
			if !child.Hidden {
				walk(child, strings.TrimSpace(path+" "+child.Name))
			}
		}
	}
	walk(app.Node, "")
	return all
}

func flagOption(f *kong.Flag) option {
	o := option{name: "--" + f.Name, help: f.Help, takes: !f.IsBool() && !f.IsCounter(), value: valueOf(f.Value)}
	if f.Short != 0 {
		o.short = "-" + string(f.Short)
	}
	return o
}

// valueOf reads an enum, or the tag complete: file, dir, model, gpu, or words.
func valueOf(v *kong.Value) value {
	if v.Enum != "" {
		return value(strings.Join(v.EnumSlice(), " "))
	}
	switch tag := v.Tag.Get("complete"); tag {
	case "model":
		return value(strings.Join(tokens.Names(), " "))
	case "gpu":
		return value(strings.Join(tokens.GPUWords(), " "))
	default:
		return value(tag)
	}
}

// valued lists the flags of a command that take a value.
func (c command) valued() (names []string) {
	for _, f := range c.flags {
		if f.takes {
			names = append(names, f.names()...)
		}
	}
	return names
}

func namesOf(options []option) (names []string) {
	for _, o := range options {
		names = append(names, o.names()...)
	}
	return names
}

// quote makes one word of text for any of the shells.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// oneLine keeps a help text short enough for a list.
func oneLine(help string) string {
	text := strings.TrimSuffix(strings.Join(strings.Fields(help), " "), ".")
	const runesMax = 100
	if runes := []rune(text); len(runes) > runesMax {
		return string(runes[:runesMax-1]) + "…"
	}
	return text
}

// places are the patterns of arguments and flags of a command with what may
// stand there, in the order in which a shell has to try them.
func (c command) places() (all [][2]string) {
	for _, f := range c.flags {
		if f.takes && f.value != "" {
			for _, name := range f.names() {
				all = append(all, [2]string{name, string(f.value)})
			}
		}
	}
	for i, v := range c.args {
		if v == "" {
			continue
		}
		all = append(all, [2]string{fmt.Sprint(i + 1), string(v)})
		if c.many && i == len(c.args)-1 {
			all = append(all, [2]string{"many", string(v)})
		}
	}
	return slices.Clip(all)
}
