package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	folder  = "internal/mutants"
	foundBy = "Found by: "

	// A simulation of so many seeds takes some seconds.
	fastSeeds = 200
)

// mutant is a patch, what it breaks, and the command that must notice.
type mutant struct {
	name, patch, what string
	command           []string
}

// read returns the mutants with these names, all if there are none. The paths
// of their patches begin with dir.
func read(dir string, names []string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".patch")
		m, err := parseHeader(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m.name, m.patch = name, filepath.ToSlash(file)
		mutants = append(mutants, m)
	}
	if len(mutants) == 0 {
		return nil, fmt.Errorf("no patches in %s", dir)
	}
	for _, name := range names {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == name }) {
			return nil, fmt.Errorf("no mutant %q", name)
		}
	}
	if len(names) > 0 {
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !slices.Contains(names, m.name) })
	}
	return mutants, nil
}

// parseHeader reads the two lines with which a patch begins.
func parseHeader(patch string) (mutant, error) {
	what, rest, _ := strings.Cut(patch, "\n")
	by, _, _ := strings.Cut(rest, "\n")
	by, ok := strings.CutPrefix(by, foundBy)
	if !ok {
		return mutant{}, fmt.Errorf("no second line that begins with %q", foundBy)
	}
	m := mutant{what: what, command: strings.Fields(by)}
	if goTest(m.command) < 0 {
		return mutant{}, fmt.Errorf("%q is not a go test", by)
	}
	if seeds := m.flag("-seeds"); seeds != "" {
		if _, err := strconv.Atoi(seeds); err != nil {
			return mutant{}, fmt.Errorf("-seeds: %w", err)
		}
	}
	return m, nil
}

// flag returns the argument behind the flag, "" if there is none.
func (m mutant) flag(name string) string {
	if i := slices.Index(m.command, name); i >= 0 && i+1 < len(m.command) {
		return m.command[i+1]
	}
	return ""
}

// fast reports whether the mutant is found in seconds.
func (m mutant) fast() bool {
	if !slices.Contains(m.command, "./internal/sim") {
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

// verbose returns the command with -v, which makes its output say which test
// was running when the process ended.
func verbose(command []string) []string {
	return slices.Insert(slices.Clone(command), goTest(command)+1, "-v")
}

// group is a command that runs the tests of several mutants' commands, and the
// values of their -run.
type group struct{ command, patterns []string }

func (g group) String() string { return strings.Join(g.command, " ") }

// try runs the command. It has to pass, and every pattern has to match a test.
func (g group) try(ctx context.Context, tree string) error {
	out, err := command(ctx, tree, verbose(g.command)...)
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
		rest := strings.Join(m.command, " ")
		pattern := m.flag("-run")
		if pattern != "" {
			command := slices.Clone(m.command)
			command[slices.Index(command, "-run")+1] = ""
			rest = strings.Join(command, " ")
		}
		i, ok := byRest[rest]
		if !ok {
			i = len(groups)
			byRest[rest] = i
			groups = append(groups, group{command: slices.Clone(m.command)})
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
