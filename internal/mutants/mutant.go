package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A simulation of so many seeds takes some seconds.
const fastSeeds = 200

// mutant is a mistake in the code, and the command that must notice it.
type mutant struct {
	name, what string
	edits      []edit
	test       string // a go test, possibly behind env
}

// check returns an error if something is missing in the table.
func (m mutant) check() error {
	if m.name == "" || m.what == "" || len(m.edits) == 0 {
		return errors.New("needs a name, what it breaks, and an edit")
	}
	if goTest(m.command()) < 0 {
		return fmt.Errorf("%q is not a go test", m.test)
	}
	if seeds := m.flag("-seeds"); seeds != "" {
		if _, err := strconv.Atoi(seeds); err != nil {
			return fmt.Errorf("-seeds: %w", err)
		}
	}
	return nil
}

// command returns the test's command, split at white space.
func (m mutant) command() []string { return strings.Fields(m.test) }

// flag returns the argument behind the flag, "" if there is none.
func (m mutant) flag(name string) string {
	command := m.command()
	if i := slices.Index(command, name); i >= 0 && i+1 < len(command) {
		return command[i+1]
	}
	return ""
}

// fast reports whether the mutant is found in seconds.
func (m mutant) fast() bool {
	if !slices.Contains(m.command(), "./internal/sim") {
		return true
	}
	seeds, err := strconv.Atoi(m.flag("-seeds"))
	return err == nil && seeds <= fastSeeds
}

// goTest returns the index of "test" in "go test", -1 if the command has none.
func goTest(command []string) int {
	for i := 1; i < len(command); i++ {
		if command[i-1] == "go" && command[i] == "test" {
			return i
		}
	}
	return -1
}

// withFlags returns the command with more flags for go test.
func withFlags(command []string, flags ...string) []string {
	return slices.Insert(slices.Clone(command), goTest(command)+1, flags...)
}

// group is a command that runs the tests of several mutants' commands, and the
// values of their -run.
type group struct{ command, patterns []string }

func (g group) String() string { return strings.Join(g.command, " ") }

// try runs the command. It has to pass, and every pattern has to match a test.
func (g group) try(ctx context.Context, src *source) error {
	out, err := src.command(ctx, "", withFlags(g.command, "-v")...)
	if err != nil {
		return fmt.Errorf("fails %q: %w\n%s", g, err, out)
	}
	ran := parse(out).ran
	if len(ran) == 0 {
		return fmt.Errorf("has no test for %q", g)
	}
	for _, pattern := range g.patterns {
		if !matches(pattern, ran) {
			return fmt.Errorf("has no test for -run %s in %q", pattern, g)
		}
	}
	return nil
}

// groupByRun joins commands that differ in the value of -run only.
func groupByRun(mutants []mutant) []group {
	var groups []group
	byRest := map[string]int{} // the command without the value, to the index of its group
	for _, m := range mutants {
		command := m.command()
		pattern := m.flag("-run")
		if pattern != "" {
			command[slices.Index(command, "-run")+1] = ""
		}
		rest := strings.Join(command, " ")
		i, ok := byRest[rest]
		if !ok {
			i = len(groups)
			byRest[rest] = i
			groups = append(groups, group{command: m.command()})
		}
		if g := &groups[i]; pattern != "" && !slices.Contains(g.patterns, pattern) {
			g.patterns = append(g.patterns, pattern)
			g.command[slices.Index(g.command, "-run")+1] = strings.Join(g.patterns, "|")
		}
	}
	return groups
}

// matches reports whether the value of a -run matches one of the tests.
func matches(pattern string, tests []string) bool {
	top, _, _ := strings.Cut(pattern, "/")
	re, err := regexp.Compile(top)
	return err == nil && slices.ContainsFunc(tests, re.MatchString)
}
