package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// result is what became of a mutant.
type result struct {
	outcome
	status string // in capitals, if the mutant was not found
	err    error
	took   time.Duration
}

func (r result) String() string {
	if r.err != nil {
		return r.status
	}
	text := fmt.Sprintf("found in %v by %s", r.took.Round(time.Second), r.by())
	if r.message != "" {
		text += ": " + r.message
	}
	return text
}

// row returns the columns of the table at the end, separated by tabs.
func (r result) row(name string) string {
	by := r.status
	if by == "" {
		by = r.by()
	}
	seed := r.seed
	if seed == "" {
		seed = "-"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%v", name, by, seed, r.took.Round(time.Second))
}

// outcome is what the output of go test -v says.
type outcome struct {
	ran, failed []string // test functions
	seed        string   // of the simulation that failed, if one did
	message     string   // the first line that says what went wrong
}

// by names the tests that failed.
func (o outcome) by() string {
	switch len(o.failed) {
	case 0: // as when goroutines are left behind
		return "(no single test)"
	case 1:
		return o.failed[0]
	default:
		return fmt.Sprintf("%s and %d more", o.failed[0], len(o.failed)-1)
	}
}

var (
	simSeed  = regexp.MustCompile(`\bseed (\d+):`)
	testLine = regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +([^/\s]+)`)
	failLine = regexp.MustCompile(`^--- FAIL: (\S+)`)
)

// parse reads the output of go test -v. A panic ends the process, and the stacks
// behind it are not read. If a goroutine other than the test's panics, there is
// no FAIL line: the panic is counted for the test that was running.
func parse(out []byte) (o outcome) {
	var current string
	firstLine := map[string]string{} // by test: the first line of its log
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if m := testLine.FindStringSubmatch(line); m != nil {
			current = m[1]
			if !slices.Contains(o.ran, current) {
				o.ran = append(o.ran, current)
			}
		} else if m := failLine.FindStringSubmatch(line); m != nil {
			o.failed = append(o.failed, m[1])
		} else if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			if current != "" && !slices.Contains(o.failed, current) {
				o.failed = append(o.failed, current)
			}
			o.message = line
			break
		} else if strings.Contains(line, "_test.go:") && firstLine[current] == "" {
			firstLine[current] = strings.TrimSpace(line)
		}
	}
	if o.message == "" && len(o.failed) > 0 {
		o.message = firstLine[o.failed[0]]
	}
	if m := simSeed.FindStringSubmatch(o.message); m != nil {
		o.seed = m[1]
	}
	o.message = o.message[:min(len(o.message), 160)]
	return o
}

// doesNotBuild reports whether go test ended before it ran a test.
func doesNotBuild(out []byte) bool {
	return bytes.Contains(out, []byte(" [build failed]\n")) || bytes.Contains(out, []byte(" [setup failed]\n"))
}

// hangs reports whether a time limit of go test ended the command.
func hangs(out []byte) bool { return bytes.Contains(out, []byte("\npanic: test timed out after ")) }

// hasTimeout reports whether a command sets go test's time limit.
func hasTimeout(command []string) bool {
	return slices.ContainsFunc(command, func(arg string) bool { return strings.HasPrefix(arg, "-timeout") })
}
