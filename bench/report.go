package main

import (
	"embed"
	"fmt"
	"io"
	"math"
	"slices"
	"text/template"
	"time"
)

// report holds what a run has measured.
type report struct {
	Short     bool
	Machine   [][2]string
	Date      time.Time
	Rows      []*row
	HandOvers []*handOver
	Openings  []*opening
	Drain     *drain
	Stores    []*row
	Passes    []storePassage
	Deaths    []death
	Claims    []claim
}

//go:embed readme.md.tmpl results.txt.tmpl
var texts embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"n":    number,
	"per":  perCycle,
	"time": latency,
	"plot": func() string { return plotName },
}).ParseFS(texts, "*.tmpl"))

// write writes all results.
func (rep *report) write(w io.Writer) error { return pages.ExecuteTemplate(w, "results.txt.tmpl", rep) }

// writePage writes the most important results, in Markdown.
func (rep *report) writePage(w io.Writer) error {
	return pages.ExecuteTemplate(w, "readme.md.tmpl", rep)
}

// Holding counts the claims that hold.
func (rep *report) Holding() (n int) {
	for _, c := range rep.Claims {
		if c.Measured != "" && c.Holds {
			n++
		}
	}
	return n
}

// scenarioRow is a row of the page: one of the library's, and those of the other sides.
type scenarioRow struct {
	*row
	Kept   bool
	Others []*row // raw or plain, zk.Lock, Curator, kazoo; nil if there is none
}

// detail are scenarios that only the file of all results has.
var detail = []string{nameContended(3000), nameHeld(2), nameHeld(3000), nameRW(200), nameAgain}

// Ours returns the library's rows for the page, beside the others of their scenarios.
func (rep *report) Ours() (all []scenarioRow) {
	for _, w := range rep.Rows {
		if (w.Side != ours && w.Side != kept) || slices.Contains(detail, w.Scenario) {
			continue
		}
		least := rep.find(w.Scenario, raw)
		if least == nil {
			least = rep.find(w.Scenario, plain)
		}
		others := []*row{least, rep.find(w.Scenario, theirs), rep.find(w.Scenario, curator), rep.find(w.Scenario, kazoo)}
		all = append(all, scenarioRow{w, w.Side == kept, others})
	}
	return all
}

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
