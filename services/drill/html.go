package drill

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"strings"
	"time"

	"github.com/soonbeon/soonbeon/services/audit"
	"github.com/soonbeon/soonbeon/services/plot"
)

//go:embed section.html.tmpl
var section string

// WriteHTML writes the audit's page with the drill's section, and with breaking and mending drawn into its plots. A report
// without an audit has no page: an error. lang is one of plot.Languages.
func (r *Report) WriteHTML(w io.Writer, lang string) error {
	if r.Audit == nil {
		return errors.New("there is no page without an audit")
	}
	t, err := template.New("drill").Funcs(template.FuncMap{
		"stamp": stamp, "seconds": seconds, "thousands": plot.Thousands, "ms": ms,
		"since": func(ms *int64) string {
			if ms == nil {
				return "not seen"
			}
			return seconds(*ms)
		},
	}).Parse(section)
	if err != nil {
		return fmt.Errorf("the drill's template: %w", err)
	}
	var body strings.Builder
	if err := t.Execute(&body, r); err != nil {
		return fmt.Errorf("writing the drill's section: %w", err)
	}
	page := audit.Page{
		Title: "Drill of queue " + r.Queue, Report: r.Audit,
		Sections: []audit.Section{{Title: "The drill", Body: template.HTML(body.String())}},
		Footer:   "Drilled: " + r.What,
	}
	for i, s := range []*Step{r.Break, r.Mend} {
		if s != nil {
			page.Marks = append(page.Marks, plot.Mark{AtMs: r.StartMs + s.AfterMs, Label: []string{"break", "mend"}[i]})
		}
	}
	return page.Write(w, lang)
}

// writePage writes the page to file, or to one that is named for when the drill began.
func (r *Report) writePage(file, lang string) error {
	if file == "" {
		file = "drill-" + time.UnixMilli(r.StartMs).Format("2006-01-02T15-04-05") + ".html"
	}
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	if err := errors.Join(r.WriteHTML(f, lang), f.Close()); err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	r.Page = file
	return nil
}
