package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// commandLine is what the arguments say, in order, before options are looked into.
type commandLine struct {
	sections []section // [global] for what stands before the first --name
	files    []string
	run      []given // options of the whole run
	own      []string
}

// readArgs sorts the arguments. Options of jobs are names with two dashes, with the
// value after = or, where one is needed, as the next argument.
func readArgs(args []string, own []Flag) (*commandLine, error) {
	c := &commandLine{sections: []section{{name: "global", place: Place{File: CommandLine}}}}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		var err error
		switch {
		case arg == "--":
			for _, file := range args {
				if err := c.file(file); err != nil {
					return nil, err
				}
			}
			return c, nil
		case strings.HasPrefix(arg, "--"):
			args, err = c.option(arg[2:], args, own)
		default:
			err = c.file(arg)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *commandLine) file(arg string) error {
	switch {
	case arg == "-":
		return c.wrong(errors.New("- for standard input is not supported; use /dev/stdin"))
	case strings.HasPrefix(arg, "-"):
		return c.wrong(fmt.Errorf("%s: options have two dashes, as in --name=a", arg))
	case arg == "":
		return c.wrong(errors.New("an empty argument is no job file"))
	}
	c.files = append(c.files, arg)
	return nil
}

func (c *commandLine) wrong(err error) error { return wrong(Place{File: CommandLine}, err) }

// option takes one option, and its value from rest where it stands there.
func (c *commandLine) option(arg string, rest []string, own []Flag) ([]string, error) {
	name, value, has := strings.Cut(arg, "=")
	valued, kind, err := c.wants(name, own)
	if err != nil {
		return nil, c.wrong(err)
	}
	if valued && !has {
		if len(rest) == 0 {
			return nil, c.wrong(fmt.Errorf("--%s needs a value", name))
		}
		value, has, rest = rest[0], true, rest[1:]
	}
	switch kind {
	case ofCaller:
		text := "--" + name
		if has {
			text += "=" + value
		}
		c.own = append(c.own, text)
	case ofRun:
		c.run = append(c.run, given{name, value, has, Place{File: CommandLine}})
	case ofName:
		if value == "" {
			return nil, c.wrong(errors.New("--name needs a name"))
		}
		c.sections = append(c.sections, section{name: value, place: Place{File: CommandLine}})
	default:
		now := &c.sections[len(c.sections)-1]
		now.options = append(now.options, given{name, value, has, Place{File: CommandLine}})
	}
	return rest, nil
}

// Kinds of options on the command line.
const (
	ofJob = iota
	ofRun
	ofName
	ofCaller
)

// wants says whether an option takes a value, and whose it is.
func (c *commandLine) wants(name string, own []Flag) (valued bool, kind int, err error) {
	if i := slices.IndexFunc(own, func(f Flag) bool { return f.Name == name }); i >= 0 {
		return own[i].Value, ofCaller, nil
	}
	if name == "name" {
		return true, ofName, nil
	}
	scope := PerJob
	if o := byName[name]; o != nil {
		scope = o.Scope
	}
	o, err := find(name, scope)
	if err != nil {
		var names []string
		for _, f := range own {
			names = append(names, f.Name)
		}
		if near := nearest(name, append(names, supported()...)); near != "" && slices.Contains(names, near) && refused[name] == "" {
			err = fmt.Errorf("there is no option %s; the nearest is %s", name, near)
		}
		return false, 0, err
	}
	if scope == PerRun {
		return !o.flag, ofRun, nil
	}
	return !o.flag, ofJob, nil
}
