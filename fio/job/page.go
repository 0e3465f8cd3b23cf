package job

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// WriteHelp explains all options for a terminal, group by group.
func WriteHelp(w io.Writer) error {
	var b strings.Builder
	eachGroup(func(group string, options []Option) {
		fmt.Fprintf(&b, "%s\n", group)
		for i := range options {
			options[i].explain(&b)
		}
	})
	folded(&b, "", UnitRule)
	_, err := io.WriteString(w, b.String())
	return err
}

// Explain explains one option, or with "all" every one. The error says what is
// known of an option that is not there.
func Explain(w io.Writer, name string) error {
	if name == "all" {
		return WriteHelp(w)
	}
	o := byName[name]
	if o == nil {
		_, err := find(name, PerJob)
		return err
	}
	var b strings.Builder
	o.explain(&b)
	if o.Default != "" {
		fmt.Fprintf(&b, "      Default: %s.\n", o.Default)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (o *Option) explain(b *strings.Builder) {
	fmt.Fprintf(b, "  %s\n", o.usage("--"))
	folded(b, "      ", o.sentences())
}

// helpColumns is the width of a help text, as that of the other commands.
const helpColumns = 80

// folded writes the words of text in lines of at most helpColumns, each with the indent; a
// word that is longer has a line of its own.
func folded(b *strings.Builder, indent, text string) {
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
			b.WriteString(indent)
			column = len(indent)
		case column+1+utf8.RuneCountInString(word) > helpColumns:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += utf8.RuneCountInString(word)
	}
	b.WriteByte('\n')
}

// Reference is the table of options as Markdown.
func Reference() string {
	var b strings.Builder
	eachGroup(func(group string, options []Option) {
		fmt.Fprintf(&b, "### %s\n\n| option | default | meaning |\n|---|---|---|\n", group)
		for _, o := range options {
			dashes := ""
			if o.Scope == PerRun {
				dashes = "--"
			}
			usage := "`" + o.usage(dashes) + "`"
			if o.Ours {
				usage += " (ours)"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(usage), cell(o.Default), cell(o.sentences()))
		}
		b.WriteByte('\n')
	})
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// eachGroup visits the groups in the order of the table.
func eachGroup(visit func(group string, options []Option)) {
	for first := 0; first < len(table); {
		end := first
		for end < len(table) && table[end].Group == table[first].Group {
			end++
		}
		visit(table[first].Group, table[first:end])
		first = end
	}
}

// usage is how the option is written, all names.
func (o *Option) usage(dashes string) string {
	text := dashes + o.Name
	for _, alias := range o.Aliases {
		text += ", " + dashes + alias
	}
	switch {
	case o.Form == "":
	case o.flag:
		text += "[=" + o.Form + "]"
	default:
		text += "=" + o.Form
	}
	return text
}

// sentences are meaning, unit, and difference from fio.
func (o *Option) sentences() string {
	text := o.Help
	if o.Unit != "" {
		text += " A bare number is in " + o.Unit + "."
	}
	if o.Differs != "" {
		text += " Differs from fio: " + lowerFirst(o.Differs)
	}
	return text
}
