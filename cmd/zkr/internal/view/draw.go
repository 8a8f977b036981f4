//go:build unix

package view

import (
	"fmt"
	"html"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// Name returns the identity and the session.
func (g *Graph) Name(s Session) string {
	return fmt.Sprintf("%s (%s)", Brief(g.Names[s]), s)
}

// Sentence says of a deadlock who waits for whom.
func (g *Graph) Sentence(circle []Session) string {
	var parts []string
	for i, w := range g.Edges(circle) {
		parts = append(parts, fmt.Sprintf("%s waits for %s, which %s holds", g.Name(w.Session), Clean(w.Path), g.Name(circle[(i+1)%len(circle)])))
	}
	return strings.Join(parts, "; ")
}

// Text writes the lines, and the deadlocks.
func (g *Graph) Text(w io.Writer) {
	for _, l := range g.Lines {
		fmt.Fprintf(w, "%s  %s\n", Clean(l.Path), l.Recipe)
		for _, p := range l.Places {
			fmt.Fprintf(w, "  %s  %s (%s)\n", l.Does(p), Brief(p.Identity), p.Session)
		}
	}
	for _, circle := range g.Deadlocks {
		fmt.Fprintf(w, "DEADLOCK: %s\n", g.Sentence(circle))
		fmt.Fprintln(w, "  One of these ends it: a waiter's call returns an error, and nobody loses a lock.")
		for _, wait := range g.Edges(circle) {
			if Clean(wait.Path+wait.Place) == wait.Path+wait.Place { // else the command would be about another path
				fmt.Fprintf(w, "  zkr evict -- %s %s\n", shellWord(wait.Path), shellWord(wait.Place))
			}
		}
	}
}

// sessions returns those who hold or wait, in order.
func (g *Graph) sessions() []Session { return slices.Sorted(maps.Keys(g.Names)) }

// Dot writes the graph for Graphviz.
func (g *Graph) Dot(w io.Writer) {
	fmt.Fprintln(w, "digraph waits {\n\tnode [shape=box];")
	for _, s := range g.sessions() {
		fmt.Fprintf(w, "\t%q [label=%q];\n", s, g.Name(s))
	}
	for _, a := range g.Arrows() {
		fmt.Fprintf(w, "\t%q -> %q [label=%q, color=%s];\n", a.From, a.To, a.Path, a.color("black"))
	}
	fmt.Fprintln(w, "}")
}

// SVG draws the sessions on a circle, with an arrow from each waiter to those for whom it
// waits, and deadlocks in red.
func (g *Graph) SVG(w io.Writer) {
	sessions := g.sessions()
	radius := max(120, 30*float64(len(sessions)))
	width, height := 2*radius+360, 2*radius+80
	at := func(s Session) (x, y float64) {
		angle := 2*math.Pi*float64(slices.Index(sessions, s))/float64(len(sessions)) - math.Pi/2
		return width/2 + radius*math.Cos(angle), height/2 + radius*math.Sin(angle)
	}
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="context-stroke"/></marker></defs>
<rect width="100%%" height="100%%" fill="white"/>
`, width, height)
	for _, a := range g.Arrows() {
		a.draw(w, at)
	}
	for _, s := range sessions {
		x, y := at(s)
		fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="160" height="34" rx="4" fill="#eef" stroke="#446"/>`, x-80, y-17)
		fmt.Fprintf(w, `<text x="%.1f" y="%.1f" text-anchor="middle">%s<tspan x="%.1f" dy="13" fill="#666">%s</tspan></text>`+"\n",
			x, y-3, html.EscapeString(shorten(Clean(g.Names[s]), 24)), x, s)
	}
	fmt.Fprintln(w, "</svg>")
}

// color returns the color of an arrow: red in a deadlock.
func (a Arrow) color(otherwise string) string {
	if a.Red {
		return "red"
	}
	return otherwise
}

// draw draws an arrow beside the straight line, so that two that point at each other are two.
func (a Arrow) draw(w io.Writer, at func(Session) (x, y float64)) {
	x1, y1 := at(a.From)
	x2, y2 := at(a.To)
	length := max(1, math.Hypot(x2-x1, y2-y1))
	dx, dy := (x2-x1)/length, (y2-y1)/length
	bendX, bendY := (x1+x2)/2-40*dy, (y1+y2)/2+40*dx
	fmt.Fprintf(w, `<path d="M%.1f %.1fQ%.1f %.1f %.1f %.1f" fill="none" stroke="%s" marker-end="url(#tip)"/>`,
		x1, y1, bendX, bendY, x2-60*dx, y2-24*dy, a.color("#446"))
	fmt.Fprintf(w, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="%s">%s</text>`+"\n",
		(x1+x2)/2-24*dy, (y1+y2)/2+24*dx, a.color("#446"), html.EscapeString(a.Path))
}

func shorten(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}
