package job

import (
	"errors"
	"fmt"
	"slices"
)

// Parse reads what follows `spillway fio`: job files, options and jobs, in fio's
// order and with fio's meaning. Options before the first --name hold for all jobs of
// the command line and of the first file; a file's [global] holds from there to
// the file's end. Flags in own are not looked into, but collected. The first error
// ends the reading: an *Error, which names file and line.
func Parse(args []string, own []Flag) (*Run, error) { return parse(args, own, osReader()) }

func parse(args []string, own []Flag, r reader) (*Run, error) {
	c, err := readArgs(args, own)
	if err != nil {
		return nil, err
	}
	b := builder{run: &Run{Options: Options{Formats: []Format{FormatNormal}}, Own: c.own}}
	for _, g := range c.run {
		o := byName[g.name]
		if g.value == "" && !o.flag {
			return nil, wrong(g.place, fmt.Errorf("--%s needs a value: %s", g.name, o.Form))
		}
		if err := o.tell(&b.run.Options, g.value); err != nil {
			return nil, wrong(g.place, fmt.Errorf("--%s: %w", g.name, err))
		}
	}
	if err := b.add(c.sections); err != nil {
		return nil, err
	}
	for i, path := range c.files {
		if i > 0 {
			b.globals = nil
			b.wall = true
		}
		sections, err := r.read(path)
		if err != nil {
			return nil, err
		}
		if err := b.add(sections); err != nil {
			return nil, err
		}
	}
	if len(b.run.Jobs) == 0 && b.run.Options.CommandHelp == "" {
		return nil, wrong(Place{File: CommandLine}, errors.New("there is no job; give a job file, or --name=NAME with the job's options"))
	}
	return b.run, nil
}

// builder makes jobs of sections, in order.
type builder struct {
	run     *Run
	globals []given // in force
	wall    bool    // the next job has a stonewall: it is the first of a further file
	phase   int
	group   int
	begun   bool             // a job has been made
	beaten  map[*Option]bool // options of the command line of which a note says that a file rules
}

func (b *builder) add(sections []section) error {
	for i := range sections {
		s := &sections[i]
		if s.global() {
			if err := b.global(s); err != nil {
				return err
			}
			continue
		}
		if err := b.job(s); err != nil {
			return err
		}
	}
	return nil
}

// global takes options into force. They are tried here, so that an error names
// their own line.
func (b *builder) global(s *section) error {
	if err := apply(newDraft(), s.options); err != nil {
		return err
	}
	b.globals = append(slices.Clip(b.globals), s.options...)
	b.run.Global = append(b.run.Global, settings(s.options)...)
	return nil
}

func (b *builder) job(s *section) error {
	d := newDraft()
	if err := apply(d, b.globals); err != nil {
		return err
	}
	if err := apply(d, s.options); err != nil {
		return err
	}
	if keep := b.run.Options.sections; keep != nil && !slices.Contains(keep, s.name) {
		return nil
	}
	d.Name, d.File, d.Line, d.Index = s.name, s.place.File, s.place.Line, len(b.run.Jobs)
	d.Settings = settings(s.options)
	d.effective = append(settings(b.globals), d.Settings...)
	notes, err := d.finish()
	if err == nil {
		err = b.order(d)
	}
	if err == nil && b.run.Options.Readonly && d.Writes {
		err = errors.New("the job writes, and --readonly forbids it")
	}
	if err == nil && d.Index == jobsMax {
		err = fmt.Errorf("more than %d jobs", jobsMax)
	}
	if err != nil {
		return wrong(s.place, fmt.Errorf("job %s: %w", s.name, err))
	}
	for _, note := range notes {
		b.run.Notes = append(b.run.Notes, fmt.Sprintf("%v: job %s: %s", s.place, s.name, note))
	}
	b.noteBeaten(s)
	b.run.Jobs = append(b.run.Jobs, d.Job)
	return nil
}

// noteBeaten notes, once for each option, that what the command line says for all jobs has
// no effect where a file says otherwise: in fio too, but few know it.
func (b *builder) noteBeaten(s *section) {
	said := map[*Option]given{}
	for _, g := range append(slices.Clip(b.globals), s.options...) {
		o := byName[g.name]
		if g.place.File == CommandLine {
			said[o] = g
			continue
		}
		first, ok := said[o]
		if !ok || first.value == g.value || b.beaten[o] {
			continue
		}
		if b.beaten == nil {
			b.beaten = map[*Option]bool{}
		}
		b.beaten[o] = true
		b.run.Notes = append(b.run.Notes, fmt.Sprintf("%v: --%s=%s does not reach job %s: %s=%s at %v rules, as in fio; change it there",
			first.place, first.name, first.value, s.name, g.name, g.value, g.place))
	}
}

// order gives the job its phase, its group and the job that it waits for.
func (b *builder) order(d *draft) error {
	wall := d.stonewall || b.wall
	d.walled, b.wall = b.wall && !d.stonewall, false
	if wall && d.Index > 0 {
		b.phase++
	}
	if (wall || d.newGroup) && b.begun {
		b.group++
	}
	b.begun = true
	d.Phase, d.Group = b.phase, b.group
	if d.waitFor == "" {
		return nil
	}
	for _, earlier := range b.run.Jobs {
		if earlier.Name != d.waitFor {
			continue
		}
		if d.WaitFor >= 0 {
			return fmt.Errorf("wait_for=%s: two jobs before it have that name", d.waitFor)
		}
		d.WaitFor = earlier.Index
	}
	if d.WaitFor < 0 {
		return fmt.Errorf("wait_for=%s: no job of that name stands before it", d.waitFor)
	}
	return nil
}

// apply reads options into d, in order.
func apply(d *draft, options []given) error {
	for _, g := range options {
		o, err := find(g.name, PerJob)
		if err == nil && g.hasValue && g.value == "" {
			err = fmt.Errorf("%s= has no value", g.name)
		}
		if err == nil {
			err = o.parse(d, g.value)
		}
		if err != nil {
			return wrong(g.place, err)
		}
	}
	return nil
}

// settings are the options under fio's names.
func settings(options []given) []Setting {
	list := make([]Setting, 0, len(options))
	for _, g := range options {
		list = append(list, Setting{byName[g.name].Name, g.value})
	}
	return list
}
