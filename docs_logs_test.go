package zkrecipes_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// logRecord is a call that writes a record to the Logger.
type logRecord struct {
	level, msg string
	keys       []string
}

// Their keys have no spaces.
func TestLogsListsAllRecordsWithTheirAttributes(t *testing.T) {
	text, err := os.ReadFile("docs/logs.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "| Level | Message | Attributes |")
	require.True(t, ok)
	_, rest, _ = strings.Cut(rest, "| --- | --- | --- | --- |")
	table, _, _ := strings.Cut(rest, "\n\n")
	var listed []string
	for row := range strings.Lines(table) {
		if cells := strings.Split(row, " | "); len(cells) >= 3 {
			listed = append(listed, strings.TrimPrefix(cells[0], "| ")+" | "+cells[1]+" | "+cells[2])
		}
	}
	slices.Sort(listed)

	var want []string
	for _, r := range logRecords(t) {
		keys := slices.Clone(r.keys)
		for i, key := range keys {
			require.NotContains(t, key, " ", r.msg)
			keys[i] = "`" + key + "`"
		}
		want = append(want, fmt.Sprintf("%s | %s | %s", r.level, r.msg, strings.Join(keys, ", ")))
	}
	missing := slices.DeleteFunc(slices.Clone(want), func(row string) bool { return slices.Contains(listed, row) })
	require.Empty(t, missing, "docs/logs.md has no such row")
	slices.Sort(want)
	require.Equal(t, slices.Compact(want), listed, "docs/logs.md has a row of no record")
}

// logRecords returns the library's records, from its source.
func logRecords(t *testing.T) (all []logRecord) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	imported, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	require.NoError(t, err)
	for _, pkg := range strings.Fields(string(imported)) {
		if dir, ours := strings.CutPrefix(pkg, "github.com/zkrecipes/zkrecipes/"); ours {
			below, err := filepath.Glob(dir + "/*.go")
			require.NoError(t, err)
			require.NotEmpty(t, below, dir)
			files = append(files, below...)
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			r, args := logRecord{level: f.Sel.Name}, call.Args
			switch {
			case strings.EqualFold(r.level, "log") && name != "internal/hooks/hooks.go":
				r.level, args = levelOf(args[0]), args[1:]
			case !isLogger(f.X):
				return true
			}
			if !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, r.level) {
				return true
			}
			r.msg = literal(t, args[0])
			for i := 1; i < len(args); i += 2 {
				r.keys = append(r.keys, literal(t, args[i]))
			}
			all = append(all, r)
			return true
		})
	}
	require.Greater(t, len(all), 20)
	return all
}

// isLogger reports whether x is the Logger itself.
func isLogger(x ast.Expr) bool {
	f, ok := x.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "logger"
}

// levelOf returns the level's name. What is no constant begins as a warning.
func levelOf(x ast.Expr) string {
	if s, ok := x.(*ast.SelectorExpr); ok {
		return strings.TrimPrefix(s.Sel.Name, "Level")
	}
	return "Warn"
}

func literal(t *testing.T, x ast.Expr) string {
	if i, ok := x.(*ast.Ident); ok && i.Name == "panickedText" {
		return "trace function panicked"
	}
	text, ok := x.(*ast.BasicLit)
	require.True(t, ok, "a message or key that is no literal: %#v", x)
	s, err := strconv.Unquote(text.Value)
	require.NoError(t, err)
	return s
}
