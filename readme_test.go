package zkrecipes_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The code in README.md and in the package's documentation is the body of
// Example, which is compiled and run.
func TestTheReadersFirstCodeIsAnExampleThatRuns(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(data)
	}
	_, rest, found := strings.Cut(read("README.md"), "\n```go\n")
	require.True(t, found, "README.md has no Go code")
	block, _, found := strings.Cut(rest, "```\n")
	require.True(t, found)

	require.Contains(t, read("example_test.go"), indent(block, "\t"))
	require.Contains(t, read("doc.go"), indent(block, "//\t"))
}

// indent puts a prefix before each line, as gofmt does: without white space at
// the end of a line.
func indent(block, prefix string) string {
	var b strings.Builder
	for line := range strings.Lines(block) {
		b.WriteString(strings.TrimRight(prefix+strings.TrimSuffix(line, "\n"), "\t"))
		b.WriteByte('\n')
	}
	return b.String()
}
