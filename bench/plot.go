package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotName   = "waiters.svg"
	plotWidth  = 26 * vg.Centimeter
	plotHeight = 10 * vg.Centimeter
)

var dashes = []vg.Length{vg.Points(5), vg.Points(3)}

// lines lists what the plot shows, if it was measured.
var lines = []struct {
	name   string
	color  color.Color
	passed func(*handOver) passage // nil: hand-overs are not measured
}{
	{curator, color.RGBA{R: 0x38, G: 0x86, B: 0x50, A: 0xff}, nil},
	{kazoo, color.RGBA{R: 0x8a, G: 0x5a, B: 0xa8, A: 0xff}, nil},
	{theirs, color.RGBA{R: 0xc0, G: 0x50, B: 0x28, A: 0xff}, func(h *handOver) passage { return h.Theirs }},
	{ours, color.RGBA{R: 0x20, G: 0x60, B: 0xa8, A: 0xff}, func(h *handOver) passage { return h.Ours }},
}

// plot writes the plot to a file.
func (rep *report) plot(file string) error {
	canvas := vgsvg.New(plotWidth, plotHeight)
	if err := rep.draw(canvas); err != nil {
		return err
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	// Name similar fonts for readers that do not have this one.
	anySans := bytes.ReplaceAll(svg.Bytes(), []byte("Liberation Sans"), []byte("Liberation Sans,Arial,sans-serif"))
	return os.WriteFile(file, anySans, 0o644)
}

// draw draws throughput and bytes received against the number of sessions, side
// by side.
func (rep *report) draw(canvas vg.CanvasSizer) error {
	rate, received := panel("acquisitions per second"), panel("bytes received")
	received.Y.Scale = plot.LogScale{}
	received.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	for _, s := range lines {
		var rates, all, passed plotter.XYs
		for _, w := range rep.Rows {
			if w.Side == s.name && w.Scenario == nameContended(w.Workers) {
				rates = append(rates, plotter.XY{X: float64(w.Workers), Y: w.Rate()})
				all = append(all, plotter.XY{X: float64(w.Workers), Y: w.Received()})
			}
		}
		for _, h := range rep.HandOvers {
			if s.passed != nil {
				passed = append(passed, plotter.XY{X: float64(h.Waiters), Y: s.passed(h).Bytes()})
			}
		}
		err := errors.Join(
			drawLine(rate, s.name, rates, s.color, nil),
			drawLine(received, s.name+", an acquisition", all, s.color, nil),
			drawLine(received, s.name+", a hand-over", passed, s.color, dashes))
		if err != nil {
			return err
		}
	}
	rate.Y.Min, rate.Y.Max = 0, 1.5*rate.Y.Max // room for the legend
	received.Y.Min, received.Y.Max = 100, 20*received.Y.Max

	page := draw.New(canvas)
	pad := vg.Points(8)
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: 4 * pad, PadLeft: pad, PadRight: 2 * pad, PadTop: pad, PadBottom: pad}
	row := []*plot.Plot{rate, received}
	page.FillPolygon(color.White, []vg.Point{
		page.Min, {X: page.Max.X, Y: page.Min.Y}, page.Max, {X: page.Min.X, Y: page.Max.Y},
	})
	for i, at := range plot.Align([][]*plot.Plot{row}, tiles, page)[0] {
		row[i].Draw(at)
	}
	return nil
}

// panel returns an empty plot over the number of sessions.
func panel(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	for _, text := range []*draw.TextStyle{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		text.Font.Variant = "Sans"
	}
	p.X.Label.Text = "sessions that want one lock"
	p.X.Scale = plot.LogScale{}
	var ticks plot.ConstantTicks
	for _, n := range waiters(false) {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: fmt.Sprint(n)})
	}
	p.X.Tick.Marker = ticks
	p.Legend.Top = true
	p.Legend.Left = true
	p.Legend.Padding = vg.Points(2)
	p.Add(plotter.NewGrid())
	return p
}

// drawLine adds a line with its points, if there are any.
func drawLine(p *plot.Plot, name string, xys plotter.XYs, c color.Color, dashes []vg.Length) error {
	if len(xys) == 0 {
		return nil
	}
	line, points, err := plotter.NewLinePoints(xys)
	if err != nil {
		return err
	}
	line.Color, line.Width, line.Dashes = c, vg.Points(1.5), dashes
	points.Color, points.Shape, points.Radius = c, draw.CircleGlyph{}, vg.Points(2.5)
	p.Add(line, points)
	p.Legend.Add(name, line, points)
	return nil
}
