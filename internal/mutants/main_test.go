package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tree makes a module with a function, its test, and patches of the function.
func tree(t *testing.T, bodies map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("go.mod", "module example.com/m\n\ngo 1.25\n")
	write("m.go", "package m\n\nfunc one() int { return 1 }\n")
	write("m_test.go", `package m

import "testing"

func TestOne(t *testing.T) {
	if n := one(); n != 1 {
		t.Error("seed 7: not one:", n)
	}
}
`)
	for name, body := range bodies {
		write(name+".patch", "It breaks.\nFound by: go test . -run TestOne\n\n"+
			"diff --git a/m.go b/m.go\n--- a/m.go\n+++ b/m.go\n@@ -1,3 +1,3 @@\n package m\n \n-func one() int { return 1 }\n+"+body+"\n")
	}
	_, err := command(t.Context(), dir, "git", "init", "--quiet")
	require.NoError(t, err)
	return dir
}

func TestHuntTellsWhatBecameOfAMutant(t *testing.T) {
	dir := tree(t, map[string]string{
		"found": "func one() int { return 2 }", "missed": "func one() int { return 2 - 1 }", "broken": "func one() int { return x }",
		"stuck": "func one() int { select {} }",
	})
	hunted := func(name string, flags ...string) result {
		t.Helper()
		m, err := parseHeader("It breaks.\nFound by: " + strings.Join(append([]string{"go test . -run TestOne"}, flags...), " ") + "\n")
		require.NoError(t, err)
		m.patch = name + ".patch"
		r := hunt(t.Context(), dir, m)
		r.took = time.Second
		return r
	}
	r := hunted("found")
	require.NoError(t, r.err)
	require.Equal(t, "found in 1s by TestOne: m_test.go:7: seed 7: not one: 2", r.String())
	require.Equal(t, "found\tTestOne\t7\t1s", r.row("found"))

	r = hunted("missed")
	require.ErrorContains(t, r.err, `NOT FOUND by "go test . -run TestOne" (It breaks.)`)
	require.Equal(t, "missed\tNOT FOUND\t-\t1s", r.row("missed"))

	require.ErrorContains(t, hunted("broken").err, "does not compile")
	require.ErrorContains(t, hunted("nowhere").err, "does not apply")

	t.Setenv("GOFLAGS", "-timeout=2s") // instead of the default of ten minutes
	require.ErrorContains(t, hunted("stuck").err, "hangs until go test's default time limit")
	require.NoError(t, hunted("stuck", "-timeout", "1s").err)
	require.NoError(t, hunted("stuck", "-timeout=1s").err)

	left, err := os.ReadFile(filepath.Join(dir, "m.go"))
	require.NoError(t, err)
	require.Contains(t, string(left), "return 1 ", "patches have to be taken back")
}

func TestTheUnchangedTreeHasToPassAndToHaveTheTest(t *testing.T) {
	dir := tree(t, nil)
	require.NoError(t, tryUnchanged(t.Context(), trees{dir}, []mutant{header(t, "go test . -run TestOne")}))
	require.ErrorContains(t, tryUnchanged(t.Context(), trees{dir}, []mutant{header(t, "go test . -run TestOne"), header(t, "go test . -run TestTwo")}),
		"no test for -run TestTwo")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.go"), []byte("package m\n\nfunc one() int { return 2 }\n"), 0o644))
	require.ErrorContains(t, tryUnchanged(t.Context(), trees{dir}, []mutant{header(t, "go test . -run TestOne")}), "fails")
}

func TestEachReportsInOrder(t *testing.T) {
	var order []int
	second := make(chan struct{})
	trees{"a", "b"}.each(3, func(_ string, i int) func() {
		switch i {
		case 0:
			<-second
		case 1:
			close(second)
		}
		return func() { order = append(order, i) }
	})
	require.Equal(t, []int{0, 1, 2}, order)
}

func TestSharesTakeTurnsAndCoverAllMutants(t *testing.T) {
	var all []mutant
	for i := range 10 {
		all = append(all, mutant{name: fmt.Sprint(i), command: []string{"go", "test", "."}})
	}
	seen := map[string]int{}
	for turn := range 3 {
		chosen, others := choose(all, true, 3, turn)
		require.Len(t, others, len(all)-len(chosen))
		require.GreaterOrEqual(t, len(chosen), 3)
		for _, m := range chosen {
			seen[m.name]++
		}
	}
	require.Len(t, seen, len(all))
	for name, n := range seen {
		require.Equal(t, 1, n, name)
	}
}
