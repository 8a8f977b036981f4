package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryMutantAppliesAndCompiles(t *testing.T) {
	all, err := named(nil)
	require.NoError(t, err)
	require.LessOrEqual(t, len(all), 80, "a mutant for each rule of safety, not for each line")
	names := map[string]bool{}
	for _, m := range all {
		require.False(t, names[m.name], "two mutants are named %s", m.name)
		require.NotContains(t, m.test, "internal/sim", "%s is found by luck", m.name)
		names[m.name] = true
	}
	require.NoError(t, checkAll(t.Context(), "../..", all))
}

func TestAnUnknownNameIsAnError(t *testing.T) {
	mutants, err := named([]string{"gate-open"})
	require.NoError(t, err)
	require.Len(t, mutants, 1)
	_, err = named([]string{"gate-open", "gate-opne"})
	require.ErrorContains(t, err, `"gate-opne"`)
}

func TestSharesTakeTurnsAndCoverAllMutants(t *testing.T) {
	var all []mutant
	for i := range 10 {
		all = append(all, mutant{name: fmt.Sprint(i)})
	}
	for first := range 10 {
		seen := map[mutant]bool{}
		for turn := first; turn < first+4; turn++ {
			chosen := share(all, 3, turn)
			require.Len(t, chosen, 3)
			for _, m := range chosen {
				seen[m] = true
			}
		}
		require.Len(t, seen, len(all))
	}
}

func TestHuntTellsWhatBecameOfAMutant(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.25\n",
		"m.go":   "package m\n\nfunc one() int { return 1 }\n",
		"m_test.go": `package m

import "testing"

func TestOne(t *testing.T) {
	if n := one(); n != 1 {
		t.Error("not one:", n)
	}
}

func TestTwo(t *testing.T) {
	if n := one(); n != 2 {
		t.Error("not two:", n)
	}
}
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	hunt := func(old, text, test string) (string, error) {
		t.Helper()
		m := mutant{name: "m", what: "It breaks.", in: ".", old: old, new: text, test: ". -run " + test}
		by, err := m.hunt(t.Context(), root)
		checked := checkAll(t.Context(), root, []mutant{m})
		require.Equal(t, strings.Contains(text, "x") || old == "n", checked != nil, "%v", checked)
		return by, err
	}
	by, err := hunt("return 1", "return 2", "TestOne")
	require.NoError(t, err)
	require.Equal(t, "TestOne", by)
	by, err = hunt("return 1", `panic("one")`, "TestOne")
	require.NoError(t, err)
	require.Equal(t, "TestOne", by)
	for _, tt := range [][4]string{
		{"return 1", "return 2 - 1", "TestOne", "not found by"},
		{"return 1", "return x", "TestOne", "build failed"},
		{"return 1", "return 3", "TestTwo", "fails without it, too"},
		{"return 1", "select {}", "TestOne -timeout 1s", "hangs"},
		{"n", "m", "TestOne", "this text 4 times, not once: n"},
	} {
		_, err := hunt(tt[0], tt[1], tt[2])
		require.ErrorContains(t, err, tt[3])
	}
	data, err := os.ReadFile(filepath.Join(root, "m.go"))
	require.NoError(t, err)
	require.Contains(t, string(data), "return 1 ", "the tree itself must not change")
}
