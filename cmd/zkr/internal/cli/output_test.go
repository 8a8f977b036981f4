//go:build unix

package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

func TestAge(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1234 * time.Millisecond: "1.2s", 61 * time.Second: "1m1s",
		110 * time.Second: "1m50s", 2 * time.Minute: "2m0s", 3725 * time.Second: "1h2m",
		3 * time.Hour: "3h0m", 51 * time.Hour: "2d3h",
	} {
		require.Equal(t, want, age(now, now.Add(-d)), d)
	}
	for d := time.Minute; d < time.Hour; d += time.Second { // what it says is what it was
		back, err := time.ParseDuration(age(now, now.Add(-d)))
		require.NoError(t, err)
		require.Equal(t, d, back)
	}
	require.Equal(t, "-", age(now, time.Time{}))
}

func TestBriefNeverControlsATerminal(t *testing.T) {
	require.Equal(t, `a\nb\x1b[2J`, brief([]byte("a\nb\x1b[2J"), 40))
	require.Equal(t, "äöü…", brief([]byte("äöüäöü"), 4))
	require.Equal(t, `"\xff"`, brief([]byte{0xff}, 40))
}

func TestPeriodsAreMultiplesPlusTheOffset(t *testing.T) {
	at := time.Date(2026, 1, 31, 1, 30, 0, 0, time.UTC)
	midnight := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	require.Equal(t, midnight, (&jobbing{every: 24 * time.Hour}).period(at))
	require.Equal(t, midnight.Add(-22*time.Hour), (&jobbing{every: 24 * time.Hour, offset: 2 * time.Hour}).period(at))
	require.Equal(t, midnight.Add(time.Hour), (&jobbing{every: time.Hour}).period(at))
	require.Equal(t, at, (&jobbing{every: 30 * time.Minute}).period(at), "its first moment")
	require.Equal(t, time.Unix(-3600, 0).UTC(), (&jobbing{every: time.Hour}).period(time.Unix(-1, 0)))
}

func TestJSONOnATerminalCannotControlIt(t *testing.T) {
	for _, text := range []string{"ä <b> \"q\" \\", "\x1b[2J\u202e\u009b31m\u2028", "\U000e0001\U0001f600"} {
		var out strings.Builder
		require.NoError(t, writeJSON(&out, text))
		require.Equal(t, -1, strings.IndexFunc(strings.TrimSuffix(out.String(), "\n"), func(r rune) bool { return !unicode.IsPrint(r) }), out.String())
		var back string
		require.NoError(t, json.Unmarshal([]byte(out.String()), &back))
		require.Equal(t, text, back)
	}
}

func TestAnErrorOnATerminalCannotControlIt(t *testing.T) {
	var out strings.Builder
	(&app{stderr: &out}).complain(exitFailure, errors.Join(errText("\x1b[2J\u202e/a\xff"), errText("unknown command\n\tlock")))
	require.Equal(t, `zkr: \x1b[2J\u202e/a\xff`+"\nunknown command\n\tlock\n", out.String())
}

// Other clients choose identities, of up to a megabyte.
func TestAPartOfALongIdentityIsPrinted(t *testing.T) {
	l := view.Line{Path: "/a", Recipe: zkrecipes.RecipeMutex, Places: []view.Place{{Name: "place", Identity: strings.Repeat("x", 500_000) + " in 0x7b", Session: 1}}}
	var who, graph strings.Builder
	printPlaces(&who, l)
	view.NewGraph([]view.Line{l}).Text(&graph)
	for _, text := range []string{who.String(), graph.String()} {
		require.Less(t, len(text), 1000)
		require.Contains(t, text, "x in 0x7b")
	}
}
