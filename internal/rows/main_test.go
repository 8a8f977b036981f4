package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckFindsWhatIsMissingAndWhatIsTooMuch(t *testing.T) {
	const list = "# a comment\nA01 one\n\nB07 two\nB08 later, with the queue: three\n"
	report, problems := check(list, []string{"TestA01Does", "TestB07A", "TestB07B", "TestOther", "TestA1x"})
	require.Empty(t, problems)
	require.Equal(t, "rows: 2 to be covered, 1 later, 0 problems", report)

	_, problems = check(list, []string{"TestA01Does", "TestB08X", "TestB99X"})
	require.Equal(t, []string{
		"B07 has no test: two",
		"B08 has a test and is said to come later",
		"a test names the row B99, which is not in the list",
	}, problems)

	_, problems = check("", nil)
	require.NotEmpty(t, problems)
}

func TestFindTestsSeesThisOne(t *testing.T) {
	names, err := findTests(".")
	require.NoError(t, err)
	require.Contains(t, names, t.Name())
}
