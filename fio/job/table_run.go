package job

import (
	"errors"
	"slices"
	"strings"
	"time"
)

var formatWords = []word[Format]{{"normal", FormatNormal}, {"json", FormatJSON}, {"json+", FormatJSONPlus}}

// runOptions belong to the whole run and stand on the command line only.
var runOptions = []Option{
	{Name: "output", Scope: PerRun, Group: "The run", Form: "FILE", Default: "standard output",
		Help: "Where the report goes.",
		tell: func(o *Options, text string) error { o.Output = text; return nil }},
	{Name: "output-format", Scope: PerRun, Group: "The run", Form: "normal|json|json+[,...]", Default: "normal",
		Help:    "Form of the report; several are printed one after the other.",
		Differs: "No terse.",
		tell: func(o *Options, text string) error {
			o.Formats = nil
			for part := range strings.SplitSeq(text, ",") {
				f, err := oneOf(part, formatWords)
				if err != nil {
					return err
				}
				if !slices.Contains(o.Formats, f) {
					o.Formats = append(o.Formats, f)
				}
			}
			return nil
		}},
	{Name: "status-interval", Scope: PerRun, Group: "The run", Form: "TIME", Unit: "seconds", Default: "0, only at the end",
		Help: "Print the report so far again and again.",
		tell: func(o *Options, text string) (err error) {
			o.StatusInterval, err = span(text, time.Second)
			if err == nil && o.StatusInterval > 0 && o.StatusInterval < 100*time.Millisecond {
				err = errors.New("at least 100ms")
			}
			return err
		}},
	{Name: "section", Scope: PerRun, Group: "The run", Form: "JOB", Default: "all",
		Help: "Run only the jobs of this name; may be given several times.",
		tell: func(o *Options, text string) error { o.sections = append(o.sections, text); return nil }},
	{Name: "readonly", Scope: PerRun, Group: "The run", flag: true,
		Help: "Refuse jobs that write.",
		tell: func(o *Options, text string) (err error) { o.Readonly, err = switched(text); return err }},
	{Name: "parse-only", Scope: PerRun, Group: "The run", flag: true,
		Help: "Say whether the jobs are good, and run none.",
		tell: func(o *Options, text string) (err error) { o.ParseOnly, err = switched(text); return err }},
	{Name: "showcmd", Scope: PerRun, Group: "The run", flag: true,
		Help: "Print the jobs as command lines, and run none.",
		tell: func(o *Options, text string) (err error) { o.ShowCommand, err = switched(text); return err }},
	{Name: "cmdhelp", Scope: PerRun, Group: "The run", Form: "OPTION|all",
		Help: "Explain an option, or all of them, and run nothing.",
		tell: func(o *Options, text string) error { o.CommandHelp = text; return nil }},
}
