package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Which code of the tests runs in a bubble of testing/synctest, where time is simulated. The
// names in the source decide, not the types, so it takes a second and compiles nothing. A
// function runs in bubbles if it gets what exists only there, or waits for all other goroutines.
// Any other function may run outside, whoever calls it.

// worlds are the types whose values exist only in bubbles. Those with a field of such a type
// belong to them.
var worlds = []string{"internal/recipetest.World", "internal/sim.world", "internal/wire.rig", "internal/wire.link"}

// testHelpers are folders of helpers of tests, of which some files do not import testing.
var testHelpers = []string{"internal/conformance", "internal/harness", "internal/recipetest", "internal/zkserver"}

// source is a file of tests, or of their helpers.
type source struct {
	*ast.File
	dir, name string
	// imports has the packages by their names in the file: the folders of those in this
	// repository, and the paths of others.
	imports map[string]string
}

// function is a function or a method of the tests.
type function struct {
	src  *source
	decl *ast.FuncDecl
	// bubbled are the parameters that it calls in a bubble, and bounds those that it uses as
	// bounds in time.
	bubbled, bounds map[int]bool
}

// tests are the tests of the repository.
type tests struct {
	fset  *token.FileSet
	files []*source
	// functions, worlds and durations have the folder and the name as their keys. Functions
	// and methods of one name stand together.
	functions map[string][]*function
	worlds    map[string]bool
	durations map[string]time.Duration
}

// readTests reads all files below root.
func readTests(root string) (*tests, error) {
	ts := newTests()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return ts.parse(path, filepath.ToSlash(rel), nil)
	})
	ts.resolve()
	return ts, err
}

func newTests() *tests {
	ts := &tests{
		fset: token.NewFileSet(), functions: map[string][]*function{},
		worlds: map[string]bool{}, durations: map[string]time.Duration{},
	}
	for _, w := range worlds {
		ts.worlds[w] = true
	}
	return ts
}

// parse reads a file, which is called file in the repository. Its text is read from path if it
// is nil. Of a file that is neither one of tests nor one of their helpers, only the durations
// matter that its constants stand for.
func (ts *tests) parse(path, file string, text any) error {
	f, err := parser.ParseFile(ts.fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	src := &source{File: f, dir: filepath.ToSlash(filepath.Dir(file)), name: file, imports: map[string]string{}}
	for _, imp := range f.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		as := path[strings.LastIndex(path, "/")+1:]
		if imp.Name != nil {
			as = imp.Name.Name
		}
		if inside(path) {
			path = name(path)
		}
		src.imports[as] = path
	}
	for _, decl := range src.Decls {
		if decl, ok := decl.(*ast.GenDecl); ok {
			for name, d := range newScope(ts, src, decl).values {
				ts.durations[src.dir+"."+name] = d
			}
		}
	}
	if _, helps := src.imports["testing"]; !helps && !strings.HasSuffix(file, "_test.go") && !slices.Contains(testHelpers, src.dir) {
		return nil
	}
	ts.files = append(ts.files, src)
	for _, decl := range src.Decls {
		if decl, ok := decl.(*ast.FuncDecl); ok {
			key := src.dir + "." + decl.Name.Name
			ts.functions[key] = append(ts.functions[key], &function{src: src, decl: decl, bubbled: map[int]bool{}, bounds: map[int]bool{}})
		}
	}
	return nil
}

// each calls f for each function of the tests.
func (ts *tests) each(f func(*function)) {
	for _, all := range ts.functions {
		for _, fn := range all {
			if fn.decl.Body != nil {
				f(fn)
			}
		}
	}
}

// parameters returns the names of the parameters.
func (fn *function) parameters() (names []string) {
	for _, field := range fn.decl.Type.Params.List {
		for _, id := range field.Names {
			names = append(names, id.Name)
		}
	}
	return names
}

// is reports whether e is one of these names of a package.
func (src *source) is(e ast.Expr, pkg string, names ...string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && src.imports[id.Name] == pkg && slices.Contains(names, sel.Sel.Name)
}

// called returns the functions that an expression may name.
func (ts *tests) called(src *source, e ast.Expr) []*function {
	switch e := e.(type) {
	case *ast.Ident:
		return ts.named(src.dir, e.Name, false)
	case *ast.IndexExpr:
		return ts.called(src, e.X)
	case *ast.SelectorExpr:
		if id, ok := e.X.(*ast.Ident); ok {
			if dir, ok := src.imports[id.Name]; ok {
				return ts.named(dir, e.Sel.Name, false)
			}
		}
		found := ts.named(src.dir, e.Sel.Name, true)
		for _, dir := range src.imports {
			if dir != src.dir {
				found = append(found, ts.named(dir, e.Sel.Name, true)...)
			}
		}
		return found
	}
	return nil
}

func (ts *tests) named(dir, name string, method bool) (found []*function) {
	for _, fn := range ts.functions[dir+"."+name] {
		if (fn.decl.Recv != nil) == method {
			found = append(found, fn)
		}
	}
	return found
}

// resolve finds out what runs in bubbles.
func (ts *tests) resolve() {
	for ts.growWorlds() {
	}
	for ts.growBubbled() {
	}
	for ts.growBounds() {
	}
}

// growWorlds adds types that are, or have, a world.
func (ts *tests) growWorlds() (grown bool) {
	for _, src := range ts.files {
		ast.Inspect(src.File, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			key := src.dir + "." + spec.Name.Name
			world := ts.isWorld(src, spec.Type)
			if s, ok := spec.Type.(*ast.StructType); ok {
				world = ts.hasWorld(src, s.Fields)
			}
			if world && !ts.worlds[key] {
				ts.worlds[key], grown = true, true
			}
			return true
		})
	}
	return grown
}

// isWorld reports whether values of that type exist only in bubbles.
func (ts *tests) isWorld(src *source, t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.StarExpr:
		return ts.isWorld(src, t.X)
	case *ast.Ident:
		return ts.worlds[src.dir+"."+t.Name]
	case *ast.SelectorExpr:
		id, ok := t.X.(*ast.Ident)
		return ok && ts.worlds[src.imports[id.Name]+"."+t.Sel.Name]
	}
	return false
}

func (ts *tests) hasWorld(src *source, fields *ast.FieldList) bool {
	return fields != nil && slices.ContainsFunc(fields.List, func(f *ast.Field) bool { return ts.isWorld(src, f.Type) })
}

// bubbles reports whether a call calls that argument in a bubble.
func (ts *tests) bubbles(src *source, call *ast.CallExpr, arg int) bool {
	if src.is(call.Fun, "testing/synctest", "Test") {
		return arg == 1
	}
	return slices.ContainsFunc(ts.called(src, call.Fun), func(fn *function) bool { return fn.bubbled[arg] })
}

// growBubbled adds parameters that functions call in a bubble.
func (ts *tests) growBubbled() (grown bool) {
	ts.each(func(fn *function) {
		names := fn.parameters()
		ast.Inspect(fn.decl.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for i, arg := range call.Args {
				if !ts.bubbles(fn.src, call, i) {
					continue
				}
				for p, name := range names {
					if !fn.bubbled[p] && mentions(arg, name) {
						fn.bubbled[p], grown = true, true
					}
				}
			}
			return true
		})
	})
	return grown
}

func mentions(e ast.Expr, name string) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}

// inBubble reports whether a function runs only in bubbles: it has a world, or waits for all
// other goroutines of its bubble.
func (ts *tests) inBubble(src *source, recv *ast.FieldList, t *ast.FuncType, body *ast.BlockStmt) (in bool) {
	if ts.hasWorld(src, recv) || ts.hasWorld(src, t.Params) {
		return true
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		in = in || ok && src.is(call.Fun, "testing/synctest", "Wait")
		return !in
	})
	return in
}

// outside calls visit for n and what is below it, except for what runs in bubbles. above are
// the nodes above, the nearest last.
func (ts *tests) outside(src *source, n ast.Node, visit func(n ast.Node, above []ast.Node)) {
	var above []ast.Node
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			above = above[:len(above)-1]
			return true
		}
		if lit, ok := n.(*ast.FuncLit); ok && ts.inBubble(src, nil, lit.Type, lit.Body) {
			return false
		}
		if e, ok := n.(ast.Expr); ok && len(above) > 0 {
			call, ok := above[len(above)-1].(*ast.CallExpr)
			if ok && slices.Contains(call.Args, e) && ts.bubbles(src, call, slices.Index(call.Args, e)) {
				return false
			}
		}
		visit(n, above)
		above = append(above, n)
		return true
	})
}
