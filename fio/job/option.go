package job

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Scope is where an option belongs.
type Scope uint8

// Scopes.
const (
	PerJob Scope = iota // in job files and, with --, on the command line
	PerRun              // on the command line only
)

// Option is one row of the table: what the parser accepts, and what help and
// reference say of it.
type Option struct {
	Name    string // fio's
	Aliases []string
	Scope   Scope
	Group   string // heading of the reference
	Ours    bool   // fio has no such option
	Form    string // of the value, such as SIZE[,SIZE]; empty for a flag
	Unit    string // of a bare number; empty if it has none
	Default string // as it would be written; empty: none
	Only    string // the one value that is accepted; empty: any
	Help    string // one sentence
	Differs string // how it differs from fio; empty: not at all

	flag bool // needs no value
	set  func(d *draft, text string) error
	tell func(o *Options, text string) error // PerRun
}

// Options of the table, in the order of the reference.
func Table() []Option { return slices.Clone(table) }

var table = slices.Concat(targetOptions, patternOptions, timeOptions, rateOptions, kvOptions, proofOptions, reportOptions, orderOptions, fixedOptions, runOptions)

// byName finds the row of every name and alias.
var byName = func() map[string]*Option {
	rows := map[string]*Option{}
	for i := range table {
		o := &table[i]
		for _, name := range append([]string{o.Name}, o.Aliases...) {
			if rows[name] != nil {
				panic("two options are called " + name)
			}
			rows[name] = o
		}
	}
	return rows
}()

// find is the option called name, or an error that says what is meant, or used.
func find(name string, scope Scope) (*Option, error) {
	o := byName[name]
	if o != nil && o.Scope == scope {
		return o, nil
	}
	if o != nil && scope == PerJob {
		return nil, fmt.Errorf("%s is an option of the whole run: give it as --%s on the command line", name, o.Name)
	}
	if instead, known := refused[name]; known {
		return nil, fmt.Errorf("fio's option %s is not supported: %s", name, instead)
	}
	say := "there is no option " + name
	if near := nearest(name, supported()); near != "" {
		say += "; the nearest is " + near
	}
	return nil, errors.New(say)
}

// supported lists the names of all options of the table, and --name.
func supported() []string {
	names := []string{"name"}
	for _, o := range table {
		names = append(append(names, o.Name), o.Aliases...)
	}
	return names
}

// parse puts the value, empty if there is none, into d.
func (o *Option) parse(d *draft, text string) error {
	if text == "" && !o.flag {
		return fmt.Errorf("%s needs a value: %s", o.Name, o.Form)
	}
	if o.Only != "" && text != o.Only && (!o.flag || text != "") {
		return fmt.Errorf("%s is accepted only as %s=%s: %s", o.Name, o.Name, o.Only, lowerFirst(o.Help))
	}
	if o.set == nil {
		return nil
	}
	if err := o.set(d, text); err != nil {
		return fmt.Errorf("%s: %w", o.Name, err)
	}
	return nil
}

func lowerFirst(text string) string { return strings.ToLower(text[:1]) + text[1:] }

// The setters below make the set of an Option from the field that it fills.

func flagTo(field func(*draft) *bool) func(*draft, string) error {
	return into(field, switched)
}

func into[T any](field func(*draft) *T, read func(string) (T, error)) func(*draft, string) error {
	return func(d *draft, text string) (err error) {
		value, err := read(text)
		if err == nil {
			*field(d) = value
		}
		return err
	}
}

func textTo(field func(*draft) *string) func(*draft, string) error {
	return into(field, func(text string) (string, error) { return text, nil })
}

func countTo(field func(*draft) *int, least, most int64) func(*draft, string) error {
	return into(field, func(text string) (int, error) {
		n, err := number(text, least, most)
		return int(n), err
	})
}

func longTo(field func(*draft) *int64, least int64) func(*draft, string) error {
	return into(field, func(text string) (int64, error) { return number(text, least, math.MaxInt64) })
}

func timeTo(field func(*draft) *time.Duration, bare time.Duration) func(*draft, string) error {
	return into(field, func(text string) (time.Duration, error) { return span(text, bare) })
}

func wordTo[T any](field func(*draft) *T, words []word[T]) func(*draft, string) error {
	return into(field, func(text string) (T, error) { return oneOf(text, words) })
}

// pairTo fills an array of one value for each direction.
func pairTo(field func(*draft) *[2]int64, least, most int64) func(*draft, string) error {
	return func(d *draft, text string) error {
		return eachDirection(text, func(direction int, text string) (err error) {
			field(d)[direction], err = number(text, least, most)
			return err
		})
	}
}

// listOf writes the words of a choice as the form of its value.
func listOf[T any](words []word[T]) string {
	var texts []string
	for _, w := range words {
		texts = append(texts, w.text)
	}
	return strings.Join(texts, "|")
}
