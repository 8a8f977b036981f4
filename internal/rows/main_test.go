package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const someRows = "# a comment\nA01 one\n\nB07 two\nB08 later, with the queue: three\n"

func named(names ...string) (tests []test) {
	for i, name := range names {
		tests = append(tests, test{name: name, file: "x_test.go", line: 10 + i})
	}
	return tests
}

func TestCheckReportsMissingAndUnknownRows(t *testing.T) {
	rows := parse(someRows)
	report, problems := check(rows, named("TestA01Does", "TestB07A", "TestB07B", "TestOther", "TestA1x"))
	require.Empty(t, problems)
	require.Equal(t, "rows: 2 need tests, 1 come later, 0 problems\n", report)

	_, problems = check(rows, named("TestA01Does", "TestB08X", "TestB99X"))
	require.Equal(t, []string{
		"B07 has no test: two",
		`B08 has a test but is marked "later"`,
		"a test names the row B99, which is not in the list",
	}, problems)

	_, problems = check(nil, nil)
	require.NotEmpty(t, problems)
}

func TestLocatePrintsTheRowAndItsTests(t *testing.T) {
	found, problems := locate(parse(someRows), named("TestB07A", "TestA01Does", "TestB07B", "TestB070"), []string{"B07", "A01", "B08"})
	require.Empty(t, problems)
	require.Equal(t, `B07 two
x_test.go:10 TestB07A
x_test.go:12 TestB07B
A01 one
x_test.go:11 TestA01Does
B08 later, with the queue: three
`, found)
}

func TestLocateNamesAnUnknownRow(t *testing.T) {
	found, problems := locate(parse(someRows), named("TestA01Does"), []string{"B99", "A01", "b07"})
	require.Equal(t, []string{`"B99" is not in the list`, `"b07" is not in the list`}, problems)
	require.Equal(t, "A01 one\nx_test.go:10 TestA01Does\n", found)
}

func TestFindTestsReturnsFileAndLine(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("a_test.go", "package a\n\n// A comment.\nfunc TestA01X() {}\n\ntype s struct{}\n\nfunc (s) TestA02X() {}\n")
	write("b/c_test.go", "package c\n\n// TestY shows:\n// A01, B07: both\nfunc TestY() {\n\t// B08: this\n}\n\n// B09: of no test\nfunc x() {}\n\nfunc TestB01X() {}\n")
	write("b/c.go", "package c\n\nfunc TestB02X() {}\n")
	tests, err := findTests(dir)
	require.NoError(t, err)
	require.Equal(t, []test{
		{"TestA01X", "a_test.go", 4, ""}, {"TestY", "b/c_test.go", 5, ""}, {"TestY", "b/c_test.go", 4, "A01, B07"},
		{"TestY", "b/c_test.go", 6, "B08"}, {"x", "b/c_test.go", 10, ""}, {"TestB01X", "b/c_test.go", 12, ""},
	}, tests)
	require.Equal(t, []string{"A01", "B07"}, tests[2].rows())
}
