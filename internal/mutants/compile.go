package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// compileAll returns an error for each mutant that does not compile.
func compileAll(ctx context.Context, src *source, p int, mutants []mutant) error {
	began := time.Now()
	var failed []error
	each(p, len(mutants), func(i int) func() {
		err := compile(ctx, src, mutants[i])
		return func() {
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", mutants[i].name, err))
			}
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Printf("%d mutants compiled in %v, %d problems\n", len(mutants), time.Since(began).Round(time.Second), len(failed))
	return errors.Join(failed...)
}

// compile compiles the packages that the mutant changes. It does not compile those that import
// them, which the edit of an exported declaration could break.
func compile(ctx context.Context, src *source, m mutant) error {
	changed, err := src.apply(m.edits)
	if err != nil {
		return err
	}
	overlay, remove, err := src.overlay(changed)
	if err != nil {
		return err
	}
	defer remove()
	dirs := map[string]bool{}
	for file := range changed {
		dirs["./"+filepath.Dir(file)] = true
	}
	// Unlike go build it leaves no executable of a package main.
	command := append([]string{"go", "list", "-export"}, slices.Sorted(maps.Keys(dirs))...)
	if out, err := src.command(ctx, overlay, command...); err != nil {
		return fmt.Errorf("does not compile: %w\n%s", cmp.Or(ctx.Err(), err), out)
	}
	return nil
}
