package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// doors says how many names the packages above may see of a package: its exported types,
// functions, constants and variables, and their exported methods and fields. Methods of errors
// and contexts whose types are not exported do not count. The number may become smaller only.
var doors = map[string]int{
	"internal/session":   71,
	"internal/line":      76,
	"internal/hold":      58,
	"internal/hooks":     10,
	"internal/queue":     93,
	"internal/barrier":   29,
	"internal/semaphore": 16,
	"internal/keep":      8,
	"internal/election":  20,
	"internal/group":     17,
	"internal/watch":     20,
	"internal/look":      35,
	"internal/counter":   8,
	"internal/assert":    2,
	"internal/digestmd5": 10,
	"internal/errs":      30,
	"internal/jute":      136,
	"internal/layout":    45,
	"internal/queuelog":  54,
	"internal/shards":    19,
	"internal/telemetry": 39,
	"internal/tuning":    13,
	"internal/wire":      79,
	"internal/zkconn":    209,
}

// implied are the methods of error and context.Context, and what errors looks for.
var implied = []string{"Error", "Unwrap", "Is", "String", "Deadline", "Done", "Err", "Value"}

// checkDoors returns the packages that export more names than they may.
func checkDoors() (problems []string, err error) {
	for _, dir := range slices.Sorted(maps.Keys(floors)) {
		if !strings.HasPrefix(dir, "internal/") { // its API is public: api.txt
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, err
		}
		n := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			n += len(exported(f))
		}
		if n > doors[dir] { // also if it has no entry
			problems = append(problems, fmt.Sprintf("%s exports %d names, and %d are allowed", dir, n, doors[dir]))
		}
	}
	return problems, nil
}

// exported returns the exported names that the file declares at its top level, with those of
// methods and of fields.
func exported(f *ast.File) (names []string) {
	add := func(of string, ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names = append(names, of+id.Name)
			}
		}
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			of := receiver(decl)
			if of == "" || ast.IsExported(of) || !slices.Contains(implied, decl.Name.Name) {
				add(of, decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					add("", spec.Names...)
				case *ast.TypeSpec:
					add("", spec.Name)
					if s, ok := spec.Type.(*ast.StructType); ok {
						for _, field := range s.Fields.List {
							add(spec.Name.Name+".", field.Names...)
						}
					}
				}
			}
		}
	}
	return names
}

// receiver returns the name of a method's type and a dot, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "."
	}
	return "?."
}
