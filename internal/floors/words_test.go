package main

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// glossary returns the words of CONTRIBUTING.md, and the file that defines each.
func glossary(t *testing.T) map[string]string {
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## Words\n")
	require.True(t, ok)
	table, _, _ := strings.Cut(section, "\n## ")
	words := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| ([a-z, ]+) \\| `(.*)` \\|$").FindAllStringSubmatch(table, -1) {
		for word := range strings.SplitSeq(row[1], ", ") {
			require.NotContains(t, words, word)
			words[word] = row[2]
		}
	}
	return words
}

// comments returns the text of the comments of a file.
func comments(t *testing.T, file string) string {
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	var text []string
	for _, m := range regexp.MustCompile(`(?m)^[ \t]*//[ \t]*(?:-[ \t]+)?(.*)$`).FindAllStringSubmatch(string(source), -1) {
		text = append(text, cmp.Or(m[1], "."))
	}
	return strings.Join(text, " ")
}

func TestTheGlossaryHas30WordsEachDefinedInItsFile(t *testing.T) {
	words := glossary(t)
	require.LessOrEqual(t, len(words), 30)
	require.Greater(t, len(words), 20)
	for _, word := range slices.Sorted(maps.Keys(words)) {
		defines := regexp.MustCompile(`(?i)(?:^|[.:)] )(?:(?:An?|The|Its) )?` + word + ` is |\bto ` + word + ` is `)
		require.True(t, defines.MatchString(comments(t, filepath.Join("../..", words[word]))), "%s does not say what %q is", words[word], word)
	}
}

// A word with two definitions has two meanings.
func TestNoWordOfTheGlossaryIsDefinedTwice(t *testing.T) {
	words := glossary(t)
	for dir := range floors {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text := comments(t, file)
			for word, place := range words {
				again := regexp.MustCompile(`(?:^|[.:)] )An? ` + word + ` is (?:an?|the|one|what) `)
				require.False(t, file != filepath.Join("../..", place) && again.MatchString(text), "%s is defined in %s, and in %s", word, place, file)
			}
		}
	}
}
