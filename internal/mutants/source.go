package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// modules are the modules below the root's that have mutants, too. go.work names them, so the go
// command tests them from the root.
var modules = []string{"cmd/zkr"}

// source is the code of the module, and of modules below it, without its tests.
type source struct {
	root  string                   // of the module, absolute
	below []string                 // the modules below it that are read, too
	files map[string]string        // by path from the root
	decls map[string][]declaration // by name, with and without that of the package
}

// declaration is where a file declares a name at the top level.
type declaration struct {
	file     string
	from, to int // offsets of bytes
}

// readSource reads the module with this root, and of those below it the ones that are named.
func readSource(root string, below ...string) (*source, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	src := &source{root: root, below: below, files: map[string]string{}, decls: map[string][]declaration{}}
	return src, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && isOutside(path) && !isOneOf(below, root, path):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		return src.add(path)
	})
}

// isOutside reports whether ./... does not include the directory.
func isOutside(dir string) bool {
	base := filepath.Base(dir)
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// isOneOf reports whether the directory is one of those, which are named from the root.
func isOneOf(dirs []string, root, dir string) bool {
	name, err := filepath.Rel(root, dir)
	return err == nil && slices.Contains(dirs, filepath.ToSlash(name))
}

// add reads a file and notes where its declarations are.
func (src *source) add(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(src.root, path)
	if err != nil {
		return err
	}
	src.files[name] = string(data)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, data, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	note := func(declared string, node ast.Node) {
		d := declaration{name, fset.Position(node.Pos()).Offset, fset.Position(node.End()).Offset}
		for _, key := range []string{declared, file.Name.Name + "." + declared} {
			src.decls[key] = append(src.decls[key], d)
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			note(receiver(decl)+decl.Name.Name, decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					note(spec.Name.Name, spec)
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						note(id.Name, spec)
					}
				}
			}
		}
	}
	return nil
}

// receiver returns the name of a method's type and a dot, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}
