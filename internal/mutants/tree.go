package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// trees are copies of the tree in which commands run side by side.
type trees []string

// copyTrees makes n copies of what git tracks, or would. Each is a repository of
// its own, so that patches apply there as they would here.
func copyTrees(ctx context.Context, n int) (t trees, err error) {
	defer func() {
		if err != nil {
			t.remove()
		}
	}()
	list, err := command(ctx, ".", "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	for range max(n, 1) {
		dir, err := os.MkdirTemp("", "mutants-")
		if err != nil {
			return t, err
		}
		t = append(t, dir)
		if err := copyFiles(names, dir); err != nil {
			return t, err
		}
		if _, err := command(ctx, dir, "git", "init", "--quiet"); err != nil {
			return t, err
		}
	}
	return t, nil
}

func copyFiles(names []string, to string) error {
	for _, name := range names {
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
	return nil
}

func (t trees) remove() {
	for _, dir := range t {
		os.RemoveAll(dir)
	}
}

// each calls do with 0 to n-1, once at a time for each tree. It calls what do
// returns in this order, one at a time.
func (t trees) each(n int, do func(tree string, i int) (report func())) {
	free := make(chan string, len(t))
	for _, tree := range t {
		free <- tree
	}
	reports := make([]chan func(), n)
	for i := range reports {
		reports[i] = make(chan func(), 1)
	}
	go func() {
		for i := range n {
			tree := <-free
			go func() {
				reports[i] <- do(tree, i)
				free <- tree
			}()
		}
	}()
	for _, report := range reports {
		(<-report)()
	}
}

// command runs a command in dir and returns its output.
func command(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	// Most of the time goes into building. With -trimpath, what does not change
	// is built once for all copies, and not again in the next run.
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -vet=off -ldflags=-w")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("%s: %w", args[0], err)
	}
	return out.Bytes(), nil
}
