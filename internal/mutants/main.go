// Mutants shows that the tests find mistakes: each patch in this folder makes
// one, known from other libraries or from this one's design, and the command
// that it names must fail then. The patches are applied to a copy of the tree,
// one at a time; a patch that does not apply, or does not compile, is an error.
//
//	go run ./internal/mutants [name...]
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mutant is a patch, what it breaks, and the command that must notice.
type mutant struct {
	name, patch, what string
	command           []string
}

const (
	folder  = "internal/mutants"
	foundBy = "Found by: "
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	tree, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if err := copyTree(ctx, tree); err != nil {
		return err
	}
	mutants, err := read(tree, names)
	if err != nil {
		return err
	}

	var tried [][]string
	for _, m := range mutants {
		if slices.ContainsFunc(tried, func(c []string) bool { return slices.Equal(c, m.command) }) {
			continue
		}
		tried = append(tried, m.command)
		began := time.Now()
		if out, err := command(ctx, tree, m.command...); err != nil {
			return fmt.Errorf("the unchanged tree fails %q: %w\n%s", strings.Join(m.command, " "), err, out)
		}
		fmt.Printf("%-24s passes in %v: %s\n", "(unchanged)", time.Since(began).Round(time.Second), strings.Join(m.command, " "))
	}
	var missed []error
	for _, m := range mutants {
		if err := m.hunt(ctx, tree); err != nil {
			missed = append(missed, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(missed...)
}

// hunt applies the patch, runs the command, and takes the patch back.
func (m mutant) hunt(ctx context.Context, tree string) error {
	if out, err := command(ctx, tree, "git", "apply", m.patch); err != nil {
		return fmt.Errorf("does not apply: %w\n%s", err, out)
	}
	defer command(ctx, tree, "git", "apply", "--reverse", m.patch)
	if out, err := command(ctx, tree, "go", "build", "./..."); err != nil {
		return fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	began := time.Now()
	out, err := command(ctx, tree, m.command...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		return fmt.Errorf("NOT FOUND by %q (%s)", strings.Join(m.command, " "), m.what)
	}
	fmt.Printf("%-24s found in %v: %s\n", m.name, time.Since(began).Round(time.Second), firstFailure(out))
	return nil
}

// firstFailure returns the line that tells what went wrong.
func firstFailure(out []byte) string {
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic:") {
			return line[:min(len(line), 160)]
		}
	}
	return "?"
}

// copyTree copies what git tracks, or would, and makes it a repository, so that
// patches apply there as they would here.
func copyTree(ctx context.Context, to string) error {
	list, err := command(ctx, ".", "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		data, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) { // deleted, and not committed yet
			continue
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, data, 0o644); err != nil {
			return err
		}
	}
	_, err = command(ctx, to, "git", "init", "--quiet")
	return err
}

func read(tree string, names []string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(tree, folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	for _, file := range files {
		m := mutant{name: strings.TrimSuffix(filepath.Base(file), ".patch"), patch: file}
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		what, rest, _ := strings.Cut(string(data), "\n")
		by, _, _ := strings.Cut(rest, "\n")
		by, ok := strings.CutPrefix(by, foundBy)
		if !ok {
			return nil, fmt.Errorf("%s: no second line that begins with %q", m.name, foundBy)
		}
		m.what, m.command = what, strings.Fields(by)
		mutants = append(mutants, m)
	}
	if len(mutants) == 0 {
		return nil, fmt.Errorf("no patches %v in %s", names, folder)
	}
	return mutants, nil
}

func command(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	// Most of the time goes into building.
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -vet=off -ldflags=-w")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("%s: %w", args[0], err)
	}
	return out.Bytes(), nil
}
