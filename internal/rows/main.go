// Command rows holds the list of rows.txt against the tests: every row must
// have a test whose name begins with it, unless it says that it comes later,
// and every test that names a row must name one of the list.
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

var testName = regexp.MustCompile(`^Test([AB]\d\d)[A-Z]`)

func main() {
	tests, err := findTests(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "rows:", err)
		os.Exit(1)
	}
	report, problems := check(list, tests)
	fmt.Println(report)
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "rows:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// check compares the list with the names of tests.
func check(list string, tests []string) (report string, problems []string) {
	covered := map[string]int{}
	for _, name := range tests {
		if m := testName.FindStringSubmatch(name); m != nil {
			covered[m[1]]++
		}
	}
	var now, later int
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, what, _ := strings.Cut(line, " ")
		n := covered[id]
		delete(covered, id)
		if strings.HasPrefix(what, "later") {
			later++
			if n > 0 {
				problems = append(problems, id+" has a test and is said to come later")
			}
			continue
		}
		now++
		if n == 0 {
			problems = append(problems, id+" has no test: "+what)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(covered)) {
		problems = append(problems, "a test names the row "+id+", which is not in the list")
	}
	if now == 0 {
		problems = append(problems, "the list is empty")
	}
	return fmt.Sprintf("rows: %d to be covered, %d later, %d problems", now, later, len(problems)), problems
}

// findTests returns the names of the test functions below dir.
func findTests(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				names = append(names, f.Name.Name)
			}
		}
		return nil
	})
	return names, err
}
