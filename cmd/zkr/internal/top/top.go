//go:build unix

package top

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// Options configure Run.
type Options struct {
	Root     string
	Interval time.Duration // between two looks
	In       io.Reader
	Out      io.Writer
	Age      func(now, since time.Time) string // as the tables of other commands
}

// Run shows the recipes below Root until the user quits or ctx ends. Each look costs as much
// as Client.Recipes, and reads the places of the line that the user has selected.
func Run(ctx context.Context, client *zkrecipes.Client, opts Options) error {
	m := &model{opts: opts, status: client.Status, look: func(selected string) seen { return look(ctx, client, opts.Root, selected) }}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithoutSignalHandler(),
		tea.WithInput(opts.In), tea.WithOutput(opts.Out)).Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// seen is the result of a look.
type seen struct {
	at      time.Time
	usages  []zkrecipes.Usage
	skipped int
	line    view.Line // the selected one
	err     error
}

// look reads the recipes, and the places of the selected one.
func look(ctx context.Context, client *zkrecipes.Client, root, selected string) (s seen) {
	for u, err := range client.Recipes(ctx, root, nil) {
		switch {
		case err == nil:
			s.usages = append(s.usages, u)
		case view.IsSkipped(err):
			s.skipped++
		default:
			s.err = err
		}
	}
	if i := slices.IndexFunc(s.usages, func(u zkrecipes.Usage) bool { return u.Path == selected }); i >= 0 {
		s.line, _ = view.Read(ctx, client, s.usages[i]) // if it is gone, the next look says so
	}
	s.at = time.Now()
	return s
}

// model is the state of the view.
type model struct {
	opts     Options
	look     func(selected string) seen
	status   func() zkrecipes.Status
	rates    rates
	joins    joins
	rows     []row
	seen     seen
	selected string // path
	by       order
	height   int    // of the screen, beyond which nothing is drawn
	rate     string // of the selected line
	lost     string // says that the connection is lost
}

type due struct{}

// beat has the view be drawn, also while a look waits for the servers.
type beat struct{}

const (
	beatTime    = time.Second
	lossSilence = 2 * time.Second // before it says that there is no connection
)

func (m *model) Init() tea.Cmd { return tea.Batch(m.lookNow(), nextBeat()) }

func nextBeat() tea.Cmd { return tea.Tick(beatTime, func(time.Time) tea.Msg { return beat{} }) }

// lookNow looks beside the view.
func (m *model) lookNow() tea.Cmd {
	selected := m.selected
	return func() tea.Msg { return m.look(selected) }
}

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.height = msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	case beat:
		m.lost = ""
		if s := m.status(); !s.Connected && time.Since(s.Since) > lossSilence {
			m.lost = "ERROR: no connection to the servers for " + m.opts.Age(time.Now(), s.Since) + "; this is what was known before\n"
		}
		return m, nextBeat()
	case due:
		return m, m.lookNow()
	case seen:
		m.take(msg)
		return m, tea.Tick(m.opts.Interval, func(time.Time) tea.Msg { return due{} })
	}
	return m, nil
}

// take takes a look's result.
func (m *model) take(s seen) {
	m.seen = s
	if s.err != nil {
		return // the table stays, with the error above it
	}
	m.rows = m.rates.rows(s.at, s.usages)
	sortRows(m.rows, m.by)
	if m.selected == "" && len(m.rows) > 0 {
		m.selected = m.rows[0].Path
	}
	m.rate = ""
	if rate, ok := m.joins.perSecond(s.at, s.line); ok && s.line.Path == m.selected {
		m.rate = fmt.Sprintf("%.1f joins/s", rate)
	}
}

func (m *model) key(key string) tea.Cmd {
	i := slices.IndexFunc(m.rows, func(r row) bool { return r.Path == m.selected })
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "s":
		m.by = (m.by + 1) % orders
		sortRows(m.rows, m.by)
	case "down", "j":
		m.choose(i + 1)
	case "up", "k":
		m.choose(i - 1)
	}
	return nil
}

func (m *model) choose(i int) {
	if i >= 0 && i < len(m.rows) {
		m.selected = m.rows[i].Path
	}
}

// View draws the whole screen: the table, and below it the places of the selected line.
func (m *model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	return v
}

func (m *model) text() string {
	if m.seen.at.IsZero() {
		return "looking ...\n" + m.lost
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s below %s, by %s", m.seen.at.Format(time.TimeOnly), view.Count(len(m.rows), "recipe", "recipes"), m.opts.Root, m.by)
	if m.seen.skipped > 0 {
		fmt.Fprintf(&b, ", %d skipped", m.seen.skipped)
	}
	b.WriteString("   (s sorts, arrows select, q quits)\n")
	b.WriteString(m.lost)
	if m.seen.err != nil {
		fmt.Fprintf(&b, "ERROR: %s\n", view.Clean(m.seen.err.Error()))
	}
	places := min(len(m.seen.line.Places), max(3, m.height/3))
	m.table(&b, max(3, m.height-places-6))
	m.places(&b, places)
	return b.String()
}

// table draws n rows, the selected one among them.
func (m *model) table(w io.Writer, n int) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "  PATH\tRECIPE\tHOLD\tWAIT\tHELD\tWAITING\tITEMS\tCHANGE/s")
	first := 0
	if i := slices.IndexFunc(m.rows, func(r row) bool { return r.Path == m.selected }); i >= n {
		first = i - n + 1
	}
	for _, r := range m.rows[first:min(len(m.rows), first+n)] {
		mark := " "
		if r.Path == m.selected {
			mark = ">"
		}
		fmt.Fprintf(t, "%s %s\t%s\t%d\t%d\t%s\t%s\t%d\t%+.1f\n", mark, view.Clean(r.Path), r.Recipe, r.Holders, r.Waiters,
			m.opts.Age(m.seen.at, r.HeldSince), m.opts.Age(m.seen.at, r.WaitingSince), r.Len, r.rate)
	}
	_ = t.Flush()
}

// places draws n places of the selected line.
func (m *model) places(w io.Writer, n int) {
	if m.seen.line.Path != m.selected {
		return
	}
	fmt.Fprintf(w, "\n%s  %s  %s\n", view.Clean(m.selected), m.rate, m.seen.line.Says())
	for _, p := range m.seen.line.Places[:n] {
		fmt.Fprintf(w, "  %-6s  %8s  %s (%s)\n", m.seen.line.Does(p), m.opts.Age(m.seen.at, p.Since), view.Brief(p.Identity), p.Session)
	}
	if more := len(m.seen.line.Places) - n; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}
