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

// write makes files below dir.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// module makes a module with files, and reads it.
func module(t *testing.T, files map[string]string) *source {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{"go.mod": "module example.com/m\n\ngo 1.25\n"})
	write(t, dir, files)
	src, err := readSource(dir)
	require.NoError(t, err)
	return src
}

// function is a module with a function and its test.
func function(t *testing.T) *source {
	t.Helper()
	return module(t, map[string]string{
		"m.go": "package m\n\nfunc one() int { return 1 }\n",
		"m_test.go": `package m

import "testing"

func TestOne(t *testing.T) {
	if n := one(); n != 1 {
		t.Error("seed 7: not one:", n)
	}
}
`,
	})
}

func TestHuntTellsWhatBecameOfAMutant(t *testing.T) {
	src := function(t)
	hunted := func(text string, flags ...string) result {
		t.Helper()
		m := mutant{
			what:  "It breaks.",
			edits: []edit{{in: "one", old: "return 1", new: text}},
			test:  strings.Join(append([]string{"go test . -run TestOne"}, flags...), " "),
		}
		r := hunt(t.Context(), src, m)
		r.took = time.Second
		return r
	}
	r := hunted("return 2")
	require.NoError(t, r.err)
	require.Equal(t, "found in 1s by TestOne: m_test.go:7: seed 7: not one: 2", r.String())
	require.Equal(t, "found\tTestOne\t7\t1s", r.row("found"))

	r = hunted("return 2 - 1")
	require.ErrorContains(t, r.err, `NOT FOUND by "go test . -run TestOne" (It breaks.)`)
	require.Equal(t, "missed\tNOT FOUND\t-\t1s", r.row("missed"))

	require.ErrorContains(t, hunted("return x").err, "does not compile")
	require.ErrorContains(t, hunted("return )").err, "does not apply")

	t.Setenv("GOFLAGS", "-timeout=2s") // instead of the default of ten minutes
	require.ErrorContains(t, hunted("select {}").err, "hangs until go test's default time limit")
	require.NoError(t, hunted("select {}", "-timeout", "1s").err)
	require.NoError(t, hunted("select {}", "-timeout=1s").err)

	left, err := os.ReadFile(filepath.Join(src.root, "m.go"))
	require.NoError(t, err)
	require.Contains(t, string(left), "return 1 ", "the tree itself must not change")
}

func TestHuntEditsWhatATestBuilds(t *testing.T) {
	src := module(t, map[string]string{
		"m.go":        "package m\n\nfunc One() int { return 1 }\n",
		"cmd/main.go": "package main\n\nimport \"example.com/m\"\n\nfunc main() { print(m.One()) }\n",
		"cmd/main_test.go": `package main

import (
	"os/exec"
	"testing"
)

func TestMain_(t *testing.T) {
	if out, err := exec.Command("go", "run", ".").CombinedOutput(); err != nil || string(out) != "1" {
		t.Error(string(out), err)
	}
}
`,
	})
	m := mutant{edits: []edit{{in: "One", old: "1", new: "2"}}, test: "go test ./cmd -run TestMain_"}
	require.NoError(t, tryUnchanged(t.Context(), src, 1, []mutant{m}))
	r := hunt(t.Context(), src, m)
	require.NoError(t, r.err)
	require.Contains(t, r.String(), "TestMain_: main_test.go:10: 2")
}

func TestTheUnchangedTreeHasToPassAndToHaveTheTest(t *testing.T) {
	src := function(t)
	try := func(commands ...string) error {
		var mutants []mutant
		for _, command := range commands {
			mutants = append(mutants, mutant{test: command})
		}
		return tryUnchanged(t.Context(), src, 1, mutants)
	}
	require.NoError(t, try("go test . -run TestOne"))
	require.ErrorContains(t, try("go test . -run TestOne", "go test . -run TestTwo"), "no test for -run TestTwo")
	write(t, src.root, map[string]string{"m.go": "package m\n\nfunc one() int { return 2 }\n"})
	require.ErrorContains(t, try("go test . -run TestOne"), "fails")
}

func TestEachReportsInOrder(t *testing.T) {
	var order []int
	second := make(chan struct{})
	each(2, 3, func(i int) func() {
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
		all = append(all, mutant{name: fmt.Sprint(i), test: "go test ."})
	}
	seen := map[string]int{}
	for turn := range 3 {
		chosen := choose(all, true, 3, turn)
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

func TestAMutantThatDoesNotCompileIsNamed(t *testing.T) {
	src := function(t)
	of := func(name, text string) mutant {
		return mutant{name: name, edits: []edit{{in: "one", old: "1", new: text}}, test: "go test . -run TestOne"}
	}
	require.NoError(t, checkAll(t.Context(), src, []mutant{of("other", "2"), of("same", "1+0")}))
	err := checkAll(t.Context(), src, []mutant{of("other", "2"), of("text", `"1"`)})
	require.ErrorContains(t, err, "text: does not compile")
	require.NotContains(t, err.Error(), "other")
}
