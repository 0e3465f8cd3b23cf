package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spillway-kv/spillway/tiering/model"
)

// The bounds of what is read.
const (
	fileBytesMax    = 1 << 20
	includeDepthMax = 16
	includesMax     = 1024 // of one job file, all together
	jobsMax         = 4096
)

// given is one option as it was written.
type given struct {
	name, value string
	hasValue    bool
	place       Place
}

// section is a [name] with its options.
type section struct {
	name    string
	place   Place
	options []given
}

func (s *section) global() bool { return s.name == "global" }

// reader reads job files. Include names and variables reach outside through
// its functions, so that a fuzzer can give it none.
type reader struct {
	open   func(path string) ([]byte, error)
	getenv func(name string) (string, bool)
}

func osReader() reader { return reader{open: readBounded, getenv: os.LookupEnv} }

// readBounded reads a job file.
func readBounded(path string) ([]byte, error) { return model.ReadFile(path, fileBytesMax) }

// read answers the sections of a job file, in order.
func (r reader) read(path string) ([]section, error) {
	data, err := r.open(path)
	if err != nil {
		return nil, wrong(Place{File: path}, plain(err))
	}
	var sections []section
	inside := inclusion{files: new(int)}
	for number, line := range lines(data) {
		at := Place{path, number}
		if line == "" {
			continue
		}
		if line[0] == '[' {
			name, err := sectionName(line)
			if err != nil {
				return nil, wrong(at, err)
			}
			sections = append(sections, section{name: name, place: at})
			continue
		}
		if len(sections) == 0 {
			return nil, wrong(at, fmt.Errorf("%q stands before the first section; begin with [global] or [JOBNAME]", line))
		}
		now := &sections[len(sections)-1]
		if now.options, err = r.option(now.options, line, at, inside); err != nil {
			return nil, err
		}
	}
	if len(sections) == 0 {
		return nil, wrong(Place{File: path}, errors.New("there is no section; a job file has at least one [JOBNAME]"))
	}
	return sections, nil
}

// inclusion is how deep a line lies in included files, and how many were read.
type inclusion struct {
	depth int
	files *int
}

// option appends what a line says: one option, or all of an included file.
func (r reader) option(options []given, line string, at Place, in inclusion) ([]given, error) {
	if name, included := strings.CutPrefix(line, "include"); included && (name == "" || name[0] == ' ' || name[0] == '\t') {
		return r.include(options, strings.TrimSpace(name), at, in)
	}
	line, err := r.expand(line)
	if err != nil {
		return nil, wrong(at, err)
	}
	name, value, has := strings.Cut(line, "=")
	g := given{strings.TrimSpace(name), strings.TrimSpace(value), has, at}
	switch {
	case g.name == "":
		return nil, wrong(at, fmt.Errorf("%q has no name before the =", line))
	case strings.ContainsAny(g.name, " \t"):
		return nil, wrong(at, fmt.Errorf("%q is no option; write name=value, one on a line", line))
	}
	return append(options, g), nil
}

// include reads a file of options without sections. As in fio its name counts
// from the working directory, or else from the file that includes it.
func (r reader) include(options []given, name string, at Place, in inclusion) ([]given, error) {
	if name == "" {
		return nil, wrong(at, errors.New("include needs a file"))
	}
	if in.depth == includeDepthMax {
		return nil, wrong(at, fmt.Errorf("more than %d files include one another", includeDepthMax))
	}
	if *in.files++; *in.files > includesMax {
		return nil, wrong(at, fmt.Errorf("more than %d files are included", includesMax))
	}
	in.depth++
	path := name
	data, err := r.open(path)
	if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(name) {
		path = filepath.Join(filepath.Dir(at.File), name)
		data, err = r.open(path)
	}
	if err != nil {
		return nil, wrong(at, fmt.Errorf("include %s: %w", name, plain(err)))
	}
	for number, line := range lines(data) {
		inside := Place{path, number}
		if line == "" {
			continue
		}
		if line[0] == '[' {
			return nil, wrong(inside, fmt.Errorf("%s: an included file has options only, no section", line))
		}
		if options, err = r.option(options, line, inside, in); err != nil {
			return nil, err
		}
		if len(options) > jobsMax {
			return nil, wrong(inside, fmt.Errorf("more than %d options in one section", jobsMax))
		}
	}
	return options, nil
}

// lines numbers the lines of a file from 1, without comments and the space around.
func lines(data []byte) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		number := 0
		for line := range strings.Lines(string(data)) {
			number++
			if end := strings.IndexAny(line, ";#"); end >= 0 {
				line = line[:end]
			}
			if !yield(number, strings.TrimSpace(line)) {
				return
			}
		}
	}
}

func sectionName(line string) (string, error) {
	name, closed := strings.CutSuffix(line[1:], "]")
	switch {
	case !closed:
		return "", fmt.Errorf("%q does not end with ]", line)
	case strings.TrimSpace(name) == "":
		return "", errors.New("a section without a name")
	case name != "global" && strings.HasPrefix(name, "global"):
		return "", fmt.Errorf("[%s]: fio takes every section that begins with global for [global]; use another name", name)
	}
	return name, nil
}

// expand puts in ${VARIABLES} of the environment.
func (r reader) expand(line string) (string, error) {
	var b strings.Builder
	for {
		before, rest, more := strings.Cut(line, "${")
		b.WriteString(before)
		if !more {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("%q has a ${ without }", line)
		}
		value, set := r.getenv(name)
		if !set {
			return "", fmt.Errorf("the environment variable %s is not set", strconv.Quote(name))
		}
		b.WriteString(value)
		line = after
	}
	return keywords.Replace(b.String()), nil
}

// keywords are fio's names for facts of the machine.
var keywords = strings.NewReplacer("$pagesize", strconv.Itoa(os.Getpagesize()), "$ncpus", strconv.Itoa(runtime.NumCPU()))

// plain takes the path off an error of the file system: the place names it.
func plain(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
