// Command rows checks the list in rows.txt against the tests. Every row needs a test, unless
// the row is marked "later". A line of a comment in or above a row's test begins with the row's
// ID, and nothing or a colon follows. Such a comment may name several rows:
//
//	// B01, B07: the reply is lost
//
// Every ID that such a comment names must be in the list.
//
// With IDs as arguments it prints these rows instead, each with the file and
// line of its tests. Run it in the root of the repository:
//
//	go run ./internal/rows [ID...]
package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed rows.txt
var list string

var comment = regexp.MustCompile(`^//\s*([AB]\d\d\d?(?:, [AB]\d\d\d?)*)(?:$|:)`)

// row is a line of the list.
type row struct{ id, what string }

// test is a comment in or above a test that names rows, and where it stands.
type test struct {
	name, file string
	line       int
	rows       []string // their IDs
}

func main() {
	tests, err := findTests(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "rows:", err)
		os.Exit(1)
	}
	rows := parse(list)
	var text string
	var problems []string
	if ids := os.Args[1:]; len(ids) > 0 {
		text, problems = locate(rows, tests, ids)
	} else {
		text, problems = check(rows, tests)
	}
	fmt.Print(text)
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "rows:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func parse(list string) (rows []row) {
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, what, _ := strings.Cut(line, " ")
		rows = append(rows, row{id, what})
	}
	return rows
}

// check compares the rows with those that the tests name.
func check(rows []row, tests []test) (report string, problems []string) {
	covered := map[string]int{}
	for _, t := range tests {
		for _, id := range t.rows {
			covered[id]++
		}
	}
	var now, later int
	for _, r := range rows {
		n := covered[r.id]
		delete(covered, r.id)
		if strings.HasPrefix(r.what, "later") {
			later++
			if n > 0 {
				problems = append(problems, r.id+` has a test but is marked "later"`)
			}
			continue
		}
		now++
		if n == 0 {
			problems = append(problems, r.id+" has no test: "+r.what)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(covered)) {
		problems = append(problems, "a test names the row "+id+", which is not in the list")
	}
	if now == 0 {
		problems = append(problems, "the list is empty")
	}
	return fmt.Sprintf("rows: %d need tests, %d come later, %d problems\n", now, later, len(problems)), problems
}

// locate returns each of the rows with these IDs, followed by its tests, one a
// line.
func locate(rows []row, tests []test, ids []string) (found string, problems []string) {
	var b strings.Builder
	for _, id := range ids {
		i := slices.IndexFunc(rows, func(r row) bool { return r.id == id })
		if i < 0 {
			problems = append(problems, fmt.Sprintf("%q is not in the list", id))
			continue
		}
		fmt.Fprintln(&b, id, rows[i].what)
		for _, t := range tests {
			if slices.Contains(t.rows, id) {
				fmt.Fprintf(&b, "%s:%d %s\n", t.file, t.line, t.name)
			}
		}
	}
	return b.String(), problems
}

// findTests returns the comments that name rows, in and above the tests below dir, by file and
// line. File names are relative to dir.
func findTests(dir string) (tests []test, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				tests = append(tests, commented(fset, file, f, filepath.ToSlash(name))...)
			}
		}
		return nil
	})
	return tests, err
}

// commented returns the comments in and above a test that name rows.
func commented(fset *token.FileSet, file *ast.File, f *ast.FuncDecl, name string) (tests []test) {
	if !strings.HasPrefix(f.Name.Name, "Test") {
		return nil
	}
	from := f.Pos()
	if f.Doc != nil {
		from = f.Doc.Pos()
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if m := comment.FindStringSubmatch(c.Text); m != nil && from <= c.Pos() && c.Pos() < f.End() {
				tests = append(tests, test{name: f.Name.Name, file: name, line: fset.Position(c.Pos()).Line, rows: strings.Split(m[1], ", ")})
			}
		}
	}
	return tests
}
