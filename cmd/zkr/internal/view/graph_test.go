//go:build unix

package view

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// line returns a line of a recipe. Sessions before | hold, and those behind it wait.
func line(recipe zkrecipes.Recipe, path string, size int, places ...any) Line {
	l := Line{Path: path, Recipe: recipe, Size: size}
	held := true
	for _, p := range places {
		if p == "|" {
			held = false
			continue
		}
		s := Session(p.(int))
		l.Places = append(l.Places, Place{Name: path + s.String(), Path: path, Identity: "host:" + s.String(), Session: s, Held: held})
	}
	return l
}

func mutex(path string, places ...any) Line { return line("mutex", path, 0, places...) }

func TestADeadlockIsACircleThatCannotGoOn(t *testing.T) {
	for _, row := range []struct {
		name  string
		lines []Line
		want  [][]Session
	}{
		{"nobody waits", []Line{mutex("/a", 1), mutex("/b", 2)}, nil},
		{"a chain", []Line{mutex("/a", 1, "|", 2), mutex("/b", 2, "|", 3)}, nil},
		{"two", []Line{mutex("/a", 1, "|", 2), mutex("/b", 2, "|", 1)}, [][]Session{{1, 2}}},
		{"two, and others behind", []Line{mutex("/a", 1, "|", 3, 2), mutex("/b", 2, "|", 1, 4)}, [][]Session{{1, 2}}},
		{"three", []Line{mutex("/a", 1, "|", 3), mutex("/b", 2, "|", 1), mutex("/c", 3, "|", 2)}, [][]Session{{1, 2, 3}}},
		{"two times two", []Line{
			mutex("/a", 1, "|", 2), mutex("/b", 2, "|", 1), mutex("/c", 3, "|", 4), mutex("/d", 4, "|", 3),
		}, [][]Session{{1, 2}, {3, 4}}},
		{"another call of the holder's process", []Line{mutex("/a", 1, "|", 1)}, nil},
		{"a reader among others", []Line{line("rwlock", "/a", 0, 1, 5, "|", 2), mutex("/b", 2, "|", 1)}, [][]Session{{1, 2}}},
		{"a slot that somebody else will give back", []Line{line("semaphore", "/a", 2, 1, 5, "|", 2), mutex("/b", 2, "|", 1)}, nil},
		{"a slot that is free", []Line{line("semaphore", "/a", 2, 1, "|", 2), mutex("/b", 2, "|", 1)}, nil},
		{"all slots", []Line{line("semaphore", "/a", 2, 1, 5, "|", 2), mutex("/b", 2, "|", 1, 5)}, [][]Session{{1, 2}}},
		{"a barrier", []Line{line("barrier", "/a", 3, "|", 1), mutex("/b", 1, "|", 2)}, nil},
	} {
		g := NewGraph(row.lines)
		require.Equal(t, row.want, g.Deadlocks, row.name)
	}
}

func TestAProgramWithinACommandCountsAsTheCommand(t *testing.T) {
	a, b := mutex("/a", 1, "|", 4), mutex("/b", 2, "|", 3)
	require.Empty(t, NewGraph([]Line{a, b}).Deadlocks)
	a.Places[1].Identity = Nested("inner", "0x2")
	b.Places[1].Identity = Nested("inner", "0x1")
	require.Equal(t, [][]Session{{1, 2}}, NewGraph([]Line{a, b}).Deadlocks)

	a = mutex("/a", 1, "|", 2)
	a.Places[1].Identity = Nested("inner", "0x1")
	require.Equal(t, [][]Session{{1}}, NewGraph([]Line{a}).Deadlocks, "it waits for its own command")
	a.Places[0].Identity = Nested("liar", "0x2")
	require.NotPanics(t, func() { NewGraph([]Line{a}) })
}

func TestADeadlockIsConfirmedByAnotherLook(t *testing.T) {
	circle := []Line{mutex("/a", 1, "|", 2), mutex("/b", 2, "|", 1)}
	g := NewGraph(circle)
	g.Confirm(NewGraph(circle))
	require.Len(t, g.Deadlocks, 1)
	g.Confirm(NewGraph([]Line{mutex("/a", 2), mutex("/b", 2, "|", 1)}))
	require.Empty(t, g.Deadlocks, "session 2 holds what it waited for")
}

// Other clients choose identities and paths.
func TestPicturesControlNeitherATerminalNorAPage(t *testing.T) {
	g := NewGraph([]Line{mutex("/a\u202e", 1, "|", 2, 3), mutex("/<b>\x1b[2J", 2, "|", 1)})
	g.Names[1] = "evil\x1b[2J<b>"
	var text, dot, svg strings.Builder
	g.Text(&text)
	g.Dot(&dot)
	g.SVG(&svg)
	require.Contains(t, text.String(), "DEADLOCK: evil[2J<b> (0x1) waits for /<b>[2J, which host:0x2 (0x2) holds; host:0x2 (0x2) waits for /a, which")
	require.NotContains(t, text.String(), "zkr evict", "without these characters it is another path")
	require.Equal(t, 1, strings.Count(dot.String(), "color=black"), "3 is in no deadlock")
	require.NotContains(t, svg.String(), "<b>")
	for _, picture := range []string{text.String(), dot.String(), svg.String()} {
		require.NotContains(t, picture, "\u202e")
		require.NotContains(t, picture, "\x1b")
	}
}

func TestADeadlockIsShownWithTheCommandsThatEndIt(t *testing.T) {
	a, b := mutex("/a", 1, "|", 4), mutex("/it's b", 2, "|", 3)
	a.Places[1].Identity, b.Places[1].Identity = Nested("inner", "0x2"), Nested("inner", "0x1")
	var text strings.Builder
	NewGraph([]Line{a, b}).Text(&text)
	require.Contains(t, text.String(), "waits  inner in 0x2 (0x4)\n", "a waiter within a command has a name of its own")
	require.Contains(t, text.String(), "DEADLOCK: host:0x1 (0x1) waits for /it's b, which")
	require.Contains(t, text.String(), `  zkr evict -- '/it'\''s b' '/it'\''s b0x3'`+"\n  zkr evict -- /a /a0x4\n")
}

func TestAnIdentityWithoutTheCommandInWhichItRuns(t *testing.T) {
	require.Equal(t, "host:1", WithoutOuter(Nested("host:1", "0x2")))
	require.Equal(t, "host in a box", WithoutOuter("host in a box"))
}
