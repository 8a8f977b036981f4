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
	"os"
	"os/exec"
	"path/filepath"
)

// checkAll returns an error for each mutant whose text is not in its package once, or which does
// not compile. It checks the package's types against what the go command has compiled, which
// takes milliseconds for each.
func checkAll(ctx context.Context, root string, mutants []mutant) error {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-export", "-json=ImportPath,Dir,GoFiles,Export", "./...")
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the packages: %w", err)
	}
	files, exports := map[string][]string{}, map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		if err := d.Decode(&p); err != nil {
			return fmt.Errorf("list the packages: %w", err)
		}
		files[p.Dir], exports[p.ImportPath] = p.GoFiles, p.Export
	}
	fset := token.NewFileSet()
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	check := func(m mutant) error {
		changed, text, err := m.apply(root)
		if err != nil {
			return err
		}
		dir, err := filepath.Abs(filepath.Dir(changed))
		if err != nil {
			return err
		}
		var parsed []*ast.File
		for _, name := range files[dir] {
			var src any // nil: the file itself
			if name == filepath.Base(changed) {
				src = text
			}
			file, err := parser.ParseFile(fset, filepath.Join(dir, name), src, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			parsed = append(parsed, file)
		}
		_, err = conf.Check(dir, fset, parsed, nil)
		return err
	}
	var failed []error
	for _, m := range mutants {
		if err := check(m); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(failed...)
}
