package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// overlay writes what -overlay of the go command reads, so that it builds the changed
// files, which it does not find in the tree. remove deletes that again.
func (src *source) overlay(changed map[string]string) (file string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	replace := map[string]string{}
	for name, text := range changed {
		to := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return "", nil, err
		}
		replace[filepath.Join(src.root, name)] = to
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, remove, os.WriteFile(file, data, 0o644)
}

// command runs a command in the module's root and returns its output. An overlay that is
// not "" is for every go command in it, also for one that a test runs.
func (src *source) command(ctx context.Context, overlay string, args ...string) ([]byte, error) {
	// Building the test binaries is most of the work. It is quicker without inlining and DWARF.
	flags := os.Getenv("GOFLAGS") + " -vet=off -ldflags=-w '-gcflags=github.com/zkrecipes/...=-l -dwarf=false'"
	if overlay != "" {
		flags += " -overlay=" + overlay
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = src.root
	cmd.Env = append(os.Environ(), "GOFLAGS="+flags)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("%s: %w", args[0], err)
	}
	return out.Bytes(), nil
}

// each calls do with 0 to n-1, at most p at a time. It calls what do returns in this
// order, one at a time.
func each(p, n int, do func(i int) (report func())) {
	free := make(chan struct{}, max(p, 1))
	reports := make([]chan func(), n)
	for i := range reports {
		reports[i] = make(chan func(), 1)
	}
	go func() {
		for i := range n {
			free <- struct{}{}
			go func() {
				reports[i] <- do(i)
				<-free
			}()
		}
	}()
	for _, report := range reports {
		(<-report)()
	}
}
