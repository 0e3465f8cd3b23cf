package job

import "time"

// Format is a form of the report.
type Format uint8

// Formats.
const (
	FormatNormal Format = iota
	FormatJSON
	FormatJSONPlus
)

var formatNames = [...]string{"normal", "json", "json+"}

func (f Format) String() string { return formatNames[f] }

// Options are those of the whole run.
type Options struct {
	Output         string   // a file; empty: standard output
	Formats        []Format // at least one, each once
	StatusInterval time.Duration
	ParseOnly      bool   // say whether the jobs are good, and run none
	CommandHelp    string // an option to explain, or all, by Explain; then there need be no jobs
	ShowCommand    bool   // print the jobs as command lines, and run none
	Readonly       bool   // no job writes

	sections []string // the jobs to keep; none: all
}

// Run is what was asked for.
type Run struct {
	Options Options
	// Global are the options of [global], in the order written.
	Global []Setting
	Jobs   []Job
	// Own are the caller's own flags as they were met, each as --name or --name=value.
	Own []string
	// Notes are what fio's users would want to be told, one sentence each.
	Notes []string
}

// Flag is a flag of the caller's that may stand between fio's.
type Flag struct {
	Name  string // without dashes
	Value bool   // takes one
}
