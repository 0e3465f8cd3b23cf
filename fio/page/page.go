// Package page draws a result as one HTML page: whether the medium is fast enough,
// by how much, and what was measured. The page fetches nothing.
package page

import (
	"bytes"
	_ "embed" // the template and its styles
	"fmt"
	"html/template"
	"io"

	"github.com/spillway-kv/spillway/fio/result"
)

//go:embed page.html
var layout string

//go:embed page.css
var styles string

var page = template.Must(template.New("page").Parse(layout))

// Write writes the page of a result. Latencies are drawn from bins, so d should
// have them (result.Run.Full, or JSON+ read back); what d has not is left out.
func Write(w io.Writer, d *result.Document) error {
	var b bytes.Buffer
	if err := page.Execute(&b, viewOf(d)); err != nil {
		return fmt.Errorf("the page of the result: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// view is what the template shows.
type view struct {
	Styles     template.CSS
	Title      string
	Subtitle   []string
	Verdicts   []*verdictView
	Error      string
	Tiles      []fact
	Charts     []figure // of the run
	Jobs       []jobView
	Rows       []row // the table of all jobs
	HasService bool
	Transports *transportsView // nil: they were not compared
	Origins    []fact          // where blocks of daemons came from
	Machine    []fact
	Options    []fact
	Notes      []string
	Version    string
}

// fact is a name with a value.
type fact struct{ Name, Value string }

// figure is a picture with its caption, drawn once for wide and once for narrow
// windows.
type figure struct {
	Title, Caption string
	Legend         []legend
	Wide, Narrow   template.HTML
}

// legend names a colour of a figure.
type legend struct{ Class, Name string }

// jobView is one entry with pictures.
type jobView struct {
	Name    string
	Figures []figure
}

// jobsDrawn bounds the entries with pictures of their own; the table has all.
const jobsDrawn = 8

func viewOf(d *result.Document) *view {
	v := &view{Styles: template.CSS(styles), Version: d.FioVersion}
	v.Title, v.Subtitle = headline(d)
	budgetNS := int64(0)
	if s := d.Spillway; s != nil {
		v.Error = s.Error
		v.Machine = machineFacts(s.Machine)
		if s.Verdict != nil {
			budgetNS = s.Verdict.BudgetNS
		}
		for _, verdict := range []*verdictView{loadsVerdict(s), verdictOf(s)} {
			if verdict != nil {
				v.Verdicts = append(v.Verdicts, verdict)
			}
		}
		v.Transports = transportsOf(s.Transports)
		if f, ok := sweepFigure(s.Sweep); ok {
			v.Charts = append(v.Charts, f)
		}
	}
	v.Tiles = tiles(d)
	v.Rows = rows(d)
	v.Origins = origins(d)
	for _, r := range v.Rows {
		v.HasService = v.HasService || r.Service != ""
	}
	for i := range d.Jobs {
		if len(v.Jobs) == jobsDrawn {
			v.Notes = append(v.Notes, fmt.Sprintf("Only the first %d of %d entries have pictures.", jobsDrawn, len(d.Jobs)))
			break
		}
		if figures := jobFigures(&d.Jobs[i], budgetNS); len(figures) > 0 {
			v.Jobs = append(v.Jobs, jobView{jobName(d, i), figures})
		}
	}
	v.Machine = append(v.Machine, driveWork(d)...)
	v.Options = options(d)
	v.Notes = append(v.Notes, notes(d)...)
	return v
}
