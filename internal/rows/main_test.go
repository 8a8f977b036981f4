package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const someRows = "# a comment\nA01 one\n\nB07 two\nB08 later, with the queue: three\n"

// naming returns a test for each row, TestA and so on.
func naming(rows ...string) (tests []test) {
	for i, row := range rows {
		tests = append(tests, test{"Test" + string(rune('A'+i)), "x_test.go", 10 + i, []string{row}})
	}
	return tests
}

func TestCheckReportsMissingAndUnknownRows(t *testing.T) {
	rows := parse(someRows)
	report, problems := check(rows, naming("A01", "B07", "B07"))
	require.Empty(t, problems)
	require.Equal(t, "rows: 2 need tests, 1 come later, 0 problems\n", report)

	_, problems = check(rows, naming("A01", "B08", "B99"))
	require.Equal(t, []string{
		"B07 has no test: two",
		`B08 has a test but is marked "later"`,
		"a test names the row B99, which is not in the list",
	}, problems)

	_, problems = check(nil, nil)
	require.NotEmpty(t, problems)
}

func TestLocatePrintsTheRowAndItsTests(t *testing.T) {
	found, problems := locate(parse(someRows), naming("B07", "A01", "B07", "B99"), []string{"B07", "A01", "B08"})
	require.Empty(t, problems)
	require.Equal(t, `B07 two
x_test.go:10 TestA
x_test.go:12 TestC
A01 one
x_test.go:11 TestB
B08 later, with the queue: three
`, found)
}

func TestLocateNamesAnUnknownRow(t *testing.T) {
	found, problems := locate(parse(someRows), naming("A01"), []string{"B99", "A01", "b07"})
	require.Equal(t, []string{`"B99" is not in the list`, `"b07" is not in the list`}, problems)
	require.Equal(t, "A01 one\nx_test.go:10 TestA\n", found)
}

func TestFindTestsReturnsFileAndLine(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("a_test.go", "package a\n\n// A01\nfunc TestX() {}\n\ntype s struct{}\n\n// A02: of no test\nfunc (s) TestX() {}\n")
	write("b/c_test.go", "package c\n\n// A01, B07: both, and\n// B09 is not named so.\nfunc TestY() {\n\t// B08: this\n}\n\n// B09: of no test\nfunc x() {}\n")
	write("b/c.go", "package c\n\n// B02: of no test\nfunc TestX() {}\n")
	tests, err := findTests(dir)
	require.NoError(t, err)
	require.Equal(t, []test{
		{"TestX", "a_test.go", 3, []string{"A01"}}, {"TestY", "b/c_test.go", 3, []string{"A01", "B07"}}, {"TestY", "b/c_test.go", 6, []string{"B08"}},
	}, tests)
}
