//go:build unix

package top

import (
	"errors"
	"fmt"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// begin is when the first look of a test ends.
func begin() time.Time { return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) }

func paths(rows []row) (paths []string) {
	for _, r := range rows {
		paths = append(paths, r.Path)
	}
	return paths
}

func newModel() *model {
	return &model{opts: Options{Root: "/", Interval: time.Second, Age: func(now, since time.Time) string { return now.Sub(since).String() }}}
}

func TestRowsAreSortedByWhatTheUserChooses(t *testing.T) {
	m := newModel()
	m.take(seen{at: begin(), usages: []zkrecipes.Usage{
		{Path: "/none", Recipe: "queue", Len: 3},
		{Path: "/young", Recipe: "mutex", Holders: 1, HeldSince: begin().Add(-time.Second), WaitingSince: begin().Add(-time.Minute)},
		{Path: "/old", Recipe: "mutex", Holders: 1, HeldSince: begin().Add(-time.Hour)},
	}})
	require.Equal(t, []string{"/old", "/young", "/none"}, paths(m.rows))
	for _, want := range [][]string{{"/young", "/none", "/old"}, {"/none", "/old", "/young"}, {"/none", "/old", "/young"}, {"/old", "/young", "/none"}} {
		m.Update(tea.KeyPressMsg{Code: 's', Text: "s"})
		require.Equal(t, want, paths(m.rows), m.by)
	}
}

func TestRatesCompareTwoLooks(t *testing.T) {
	var r rates
	queue := zkrecipes.Usage{Path: "/q", Recipe: "queue", Len: 10}
	lock := zkrecipes.Usage{Path: "/l", Recipe: "mutex", HeldSince: begin()}
	rows := r.rows(begin(), []zkrecipes.Usage{queue, lock})
	require.Zero(t, rows[0].rate)
	queue.Len, lock.HeldSince = 4, begin().Add(time.Second)
	rows = r.rows(begin().Add(2*time.Second), []zkrecipes.Usage{queue, lock})
	require.Equal(t, -3.0, rows[0].rate)
	require.Equal(t, 0.5, rows[1].rate)
	queue.Recipe = "mutex"
	require.Zero(t, r.rows(begin().Add(3*time.Second), []zkrecipes.Usage{queue})[0].rate, "another recipe")
}

func TestJoinsAreCountedByTheNumbersOfPlaces(t *testing.T) {
	line := func(numbers ...int) (l view.Line) {
		l.Path = "/a"
		for _, n := range numbers {
			l.Places = append(l.Places, view.Place{Name: fmt.Sprintf("_c_x-lock-%010d", n)})
		}
		return l
	}
	var j joins
	_, known := j.perSecond(begin(), line())
	require.False(t, known)
	_, known = j.perSecond(begin(), line(7, 9))
	require.False(t, known, "a first look tells no rate")
	rate, known := j.perSecond(begin().Add(2*time.Second), line(29))
	require.True(t, known)
	require.Equal(t, 10.0, rate)
	rate, _ = j.perSecond(begin().Add(4*time.Second), line())
	require.Equal(t, 5.0, rate, "nobody is there at the moment")
	_, known = j.perSecond(begin().Add(5*time.Second), line(0))
	require.False(t, known, "the line was deleted and made again")
}

func TestTheSelectedLineIsShownAndNothingControlsTheTerminal(t *testing.T) {
	m := newModel()
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 12})
	var usages []zkrecipes.Usage
	for i := range 20 {
		usages = append(usages, zkrecipes.Usage{Path: fmt.Sprintf("/l%02d\x1b[2J", i), Recipe: "mutex"})
	}
	l := view.Line{Path: "/l19\x1b[2J", Places: []view.Place{{Identity: "evil\x1b[2J", Held: true, Since: begin()}}}
	m.take(seen{at: begin(), usages: usages})
	require.Contains(t, m.text(), "> /l00")
	require.NotContains(t, m.text(), "/l19")
	for range 30 {
		m.Update(tea.KeyPressMsg{Code: tea.KeyDown})
	}
	m.take(seen{at: begin(), usages: usages, line: l})
	require.Contains(t, m.text(), "> /l19", "it is scrolled to")
	require.Contains(t, m.text(), "holds")
	require.NotContains(t, m.text(), "\x1b")
	m.take(seen{at: begin(), err: errors.New("no server")})
	require.Contains(t, m.text(), "ERROR: no server")
	require.Contains(t, m.text(), "> /l19", "the last table stays")
}

func TestALostConnectionIsSaidWhileALookWaits(t *testing.T) {
	m := newModel()
	status := zkrecipes.Status{Connected: true, Since: time.Now().Add(-time.Hour)}
	m.status = func() zkrecipes.Status { return status }
	m.Update(beat{})
	require.NotContains(t, m.text(), "ERROR")
	status.Connected = false
	m.Update(beat{})
	require.Contains(t, m.text(), "ERROR: no connection to the servers for 1h", "also before the first look has ended")
	m.Update(seen{at: begin()})
	require.Contains(t, m.text(), "ERROR: no connection to the servers for 1h")
	status.Connected = true
	m.Update(beat{})
	require.NotContains(t, m.text(), "ERROR")
}
