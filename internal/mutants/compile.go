package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// checkAll returns an error for each mutant whose text is not in the source, or which does not
// compile. It checks the types of the packages that the mutant changes, which takes some
// milliseconds, and not those that import them, which the edit of an exported declaration
// could break.
func checkAll(ctx context.Context, src *source, mutants []mutant) error {
	c, err := newChecker(ctx, src)
	if err != nil {
		return err
	}
	var failed []error
	for _, m := range mutants {
		if changed, err := src.apply(m.edits); err != nil {
			failed = append(failed, fmt.Errorf("%s: does not apply: %w", m.name, err))
		} else if err := c.check(changed); err != nil {
			failed = append(failed, fmt.Errorf("%s: does not compile: %w", m.name, err))
		}
	}
	return errors.Join(failed...)
}

// checker checks the types of packages against what the go command has compiled.
type checker struct {
	src      *source
	files    map[string][]string // of a package, by its directory
	fset     *token.FileSet
	importer types.Importer
}

func newChecker(ctx context.Context, src *source) (*checker, error) {
	args := []string{"go", "list", "-deps", "-export", "-json=ImportPath,Dir,GoFiles,Export", "./..."}
	for _, m := range src.below {
		args = append(args, "./"+m+"/...")
	}
	list := exec.CommandContext(ctx, args[0], args[1:]...)
	list.Dir, list.Stderr = src.root, os.Stderr // which says what it downloads
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	c := &checker{src: src, files: map[string][]string{}, fset: token.NewFileSet()}
	exports := map[string]string{} // the file, by the path of the package
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("list the packages: %w", err)
		}
		exports[p.ImportPath], c.files[p.Dir] = p.Export, p.GoFiles
	}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	return c, nil
}

// check checks the packages with the changed files.
func (c *checker) check(changed map[string]string) error {
	dirs := map[string]bool{}
	for name := range changed {
		dirs[filepath.Dir(name)] = true
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		var files []*ast.File
		for _, base := range c.files[filepath.Join(c.src.root, dir)] {
			name := filepath.Join(dir, base)
			text, ok := changed[name]
			if !ok {
				text = c.src.files[name]
			}
			file, err := parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files = append(files, file)
		}
		conf := types.Config{Importer: c.importer}
		if _, err := conf.Check(dir, c.fset, files, nil); err != nil {
			return err
		}
	}
	return nil
}
