package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// shortIn returns the functions of a package of tests with bounds that are too short, and these.
func shortIn(t *testing.T, body string) (found []string) {
	t.Helper()
	ts := newTests()
	for name, text := range map[string]string{
		"p/consts.go": "package p\nimport \"time\"\nconst grace = 50 * time.Millisecond",
		"p/p_test.go": `package p
			import (
				"context"
				"net/http"
				"os/exec"
				"testing"
				"testing/synctest"
				"time"
				"github.com/stretchr/testify/require"
				"` + module + `/internal/recipetest"
			)
			` + body,
		"internal/recipetest/r.go": `package recipetest
			import ("testing"; "testing/synctest")
			type World struct{}
			func InBubble(t *testing.T, f func(t *testing.T, w *World)) {
				synctest.Test(t, func(t *testing.T) { f(t, &World{}) })
			}`,
	} {
		require.NoError(t, ts.parse(name, name, text))
	}
	ts.resolve()
	for _, b := range ts.shortBounds() {
		found = append(found, b.where+" "+b.d.String())
	}
	return found
}

func TestShortBoundsAreFound(t *testing.T) {
	for body, want := range map[string]string{
		`ctx, _ := context.WithTimeout(t.Context(), 200*time.Millisecond); _ = ctx`: "200ms",
		`context.WithDeadline(t.Context(), time.Now().Add(time.Second))`:            "1s",
		`select { case <-time.After(20 * time.Second): }`:                           "20s",
		`time.Sleep(2 * grace)`:                                                                 "100ms",
		`for range 10 { time.Sleep(time.Second) }`:                                              "1s",
		`for i := 0; i < 10; i++ { time.Sleep(time.Second) }`:                                   "1s",
		`const d = time.Second; time.AfterFunc(d+d, t.Fail)`:                                    "2s",
		`d := time.Second / 2; require.Eventually(t, done, d, time.Millisecond)`:                "500ms",
		`require.Never(t, done, time.Second, time.Millisecond)`:                                 "1s",
		`_ = http.Client{Timeout: time.Second}`:                                                 "1s",
		`cmd := exec.Command("x"); cmd.WaitDelay = time.Second`:                                 "1s",
		`began := time.Now(); took := time.Since(began); require.Less(t, took, 30*time.Second)`: "30s",
		`began := time.Now(); if time.Since(began) > 3*time.Second { t.Fail() }`:                "3s",
		`run("lock", "--connect-timeout", "3s", "/a")`:                                          "3s",
		`_ = []string{"-w", "2s"}`:                                                              "2s",
		`soon(t, time.Second)`:                                                                  "1s",
	} {
		require.Equal(t, []string{"p/p_test.go TestT " + want}, shortIn(t, `
			func soon(t *testing.T, d time.Duration) { time.AfterFunc(d, t.Fail) }
			func TestT(t *testing.T) { `+body+` }`), body)
	}
}

func TestWhatIsNoShortBoundIsNotFound(t *testing.T) {
	for _, body := range []string{
		`context.WithTimeout(t.Context(), time.Minute)`,
		`for !done() { time.Sleep(time.Millisecond) }`,
		`for { if done() { return }; time.Sleep(time.Millisecond) }`,
		`require.Eventually(t, done, time.Minute, time.Millisecond)`,
		`began := time.Now(); require.GreaterOrEqual(t, time.Since(began), time.Second)`,
		`require.Less(t, pause(), time.Second)`,
		`_ = http.Request{Timeout: time.Second}`,
		`run("lock", "--session-timeout", "3s", "/a")`,
	} {
		require.Empty(t, shortIn(t, `func TestT(t *testing.T) { `+body+` }`), body)
	}
}

func TestWhatRunsInABubbleMayHaveShortBounds(t *testing.T) {
	for _, body := range []string{
		`func TestT(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(time.Second) }) }`,
		`func TestT(t *testing.T) { recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { time.Sleep(time.Second) }) }`,
		`func TestT(t *testing.T) { each(t, func(t *testing.T) { time.Sleep(time.Second) }) }
			func each(t *testing.T, f func(t *testing.T)) { for range 2 { synctest.Test(t, func(t *testing.T) { f(t) }) } }`,
		`func TestT(t *testing.T) { recipetest.InBubble(t, test) }
			func test(t *testing.T, w *recipetest.World) { time.Sleep(time.Second) }`,
		`type world struct { *recipetest.World }
			func (w *world) pause() { time.Sleep(time.Second) }`,
		`var table = []func(){func() { time.Sleep(time.Second); synctest.Wait() }}`,
	} {
		require.Empty(t, shortIn(t, body), body)
	}
}

func TestAHelperWithoutAWorldMayRunOutsideOfBubbles(t *testing.T) {
	require.Equal(t, []string{"p/p_test.go pause 1s"}, shortIn(t, `
		func TestT(t *testing.T) { synctest.Test(t, func(t *testing.T) { pause() }) }
		func pause() { time.Sleep(time.Second) }`))
}
