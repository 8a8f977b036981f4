package main

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"text/template"
	"time"
)

// report holds what a run has measured.
type report struct {
	Short    bool
	Machine  [][2]string
	Date     time.Time
	Rows     []*row
	HandOffs []*handOff
	Openings []*opening
	Drain    *drain
	Claims   []claim
}

//go:embed report.md.tmpl
var page string

var pageTemplate = template.Must(template.New("report.md.tmpl").Funcs(template.FuncMap{
	"n":    number,
	"per":  perCycle,
	"time": latency,
	"plot": func() string { return plotName },
	"most": func() int { return mostKazoo },
}).Parse(page))

// write writes the report in Markdown.
func (rep *report) write(w io.Writer) error { return pageTemplate.Execute(w, rep) }

// Beside returns how the rate of a row compares with those of the other sides, for
// the last column of the table.
func (rep *report) Beside(w *row) string {
	if w.Side != ours && w.Side != kept {
		return ""
	}
	text := ""
	for _, other := range rep.Rows {
		if other.Scenario == w.Scenario && other != w && other.Side != kept {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%.2f × %s", w.speedBeside(other).Median, other.Side)
		}
	}
	return text
}

// number returns a figure of three digits or more as text, without decimals and with
// commas.
func number(f float64) string {
	n := int64(math.Round(f))
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return number(float64(n/1000)) + fmt.Sprintf(",%03d", n%1000)
}

// perCycle returns a small count as text.
func perCycle(f float64) string { return fmt.Sprintf("%.2f", f) }

// latency returns a time as text, with about three digits.
func latency(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
}
