package zkrecipes_test

import (
	"fmt"
	"go/build"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/markdown"
)

func TestCodeInTheDocumentsIsCompiled(t *testing.T) {
	require.Empty(t, uncompiled(t, os.DirFS(".")))
}

func TestLinksInTheDocumentsHaveATarget(t *testing.T) {
	require.Empty(t, deadLinks(t, os.DirFS(".")))
}

// Package documentation and README begin with the same code.
func TestTheFirstExampleOfDocGoIsREADMEs(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for _, block := range documents(t, os.DirFS("."))["README.md"].Blocks {
		if block.Language == "go" {
			_, code, _ := strings.Cut(strings.ReplaceAll(string(doc), "\n//", "\n"), "\n\t")
			require.True(t, strings.HasPrefix("\n\t"+code, indented(block.Code, "\t")))
			return
		}
	}
	t.Error("README.md has no code")
}

func TestREADMEHas600WordsAtMostBesideItsCode(t *testing.T) {
	text := read(t, os.DirFS("."), "README.md")
	words := count(text)
	for _, block := range markdown.Parse(text).Blocks {
		words -= count(strings.Join(block.Code, "\n"))
	}
	require.LessOrEqual(t, words, 600)
	require.Greater(t, words, 300)
}

// To add a paragraph, cut another. make lint warns if all of them together are long.
func TestDocumentsAreShort(t *testing.T) {
	long, sum := tooLong(t, os.DirFS("."), 1500)
	require.Empty(t, long)
	require.Greater(t, sum, 10_000)
}

// tooLong returns the documents below docs that have more words than max, and the sum of all. A
// word has a letter or a digit, and is not in a block of code.
func tooLong(t *testing.T, repository fs.FS, max int) (long []string, sum int) {
	all := documents(t, repository)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, "docs/") {
			continue
		}
		words := count(read(t, repository, name))
		for _, block := range all[name].Blocks {
			words -= count(strings.Join(block.Code, "\n"))
		}
		if words > max {
			long = append(long, fmt.Sprintf("%s: %d words", name, words))
		}
		sum += words
	}
	return long, sum
}

// count counts the words of a text. The bars of a table and the fences of a block are none.
func count(text string) (n int) {
	for _, field := range strings.Fields(text) {
		if !strings.HasPrefix(field, "```") && strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

func TestTheChecksOfTheDocumentsFindWhatIsWrong(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	program := file("package p\n\nfunc f() {\n\tif a() {\n\t\tb()\n\n\t\tc()\n\t}\n}\n")
	repository := fstest.MapFS{
		"README.md": file("# One\n```go\nif a() {\n\tb()\n\n\tc()\n}\n```\n" + // compiled
			"```go\n  b()\n\n  c()\n```\n" + // compiled, with another indentation
			"```go\nif a() {\n\tc()\n```\n" + // is not
			"```\nx := 1\n```\n    y\n"),
		"docs/two.md": file("```go\nif a() {\nb()\n```\n" + // not indented as it is compiled
			"```sql\nx := func \n```\n" +
			"[1](../README.md#one) [2](two.md#none) [3](https://example.com/none) [4](#here) [5](/examples)\n" +
			"[6](none.md) [7](../../outside.md) ![8](none.svg) [9](../examples/x/x.go#one) [10](../README.md#)\n\n# Here\n" +
			"```go\nd()\n```\n```go\ne()\n```\n```go\ng()\n```\n```go\ni()\n```\n"),
		"examples/x/x.go":       program,
		"examples/x/ignored.go": file("//go:build ignore\n\npackage p\n\nfunc h() {\n\td()\n}\n"),
		"go.work":               file("go 1.26.0\n\nuse (\n\t.\n\t./examples/used\n)\n"),
		"examples/used/go.mod":  file("module used\n"), // make lint compiles it
		"examples/used/x.go":    file("package p\n\nfunc h() {\n\ti()\n}\n"),
		"examples/own/go.mod":   file("module own\n"), // nothing compiles it
		"examples/own/x.go":     file("package p\n\nfunc h() {\n\te()\n}\n"),
		"other/x.go":            file("package p\n\nfunc h() {\n\tg()\n}\n"), // not meant for readers
	}
	require.Equal(t, []string{
		"README.md:15: no compiled file has this code",
		"README.md:19: Go code in a block without a language",
		"docs/two.md:2: no compiled file has this code",
		"docs/two.md:13: no compiled file has this code",
		"docs/two.md:16: no compiled file has this code",
		"docs/two.md:19: no compiled file has this code",
	}, uncompiled(t, repository))
	require.Equal(t, []string{
		"docs/two.md:8: two.md#none: no such heading",
		"docs/two.md:9: none.md: no such file",
		"docs/two.md:9: ../../outside.md: no such file",
		"docs/two.md:9: none.svg: no such file",
		"docs/two.md:9: ../examples/x/x.go#one: no such heading",
		"docs/two.md:9: ../README.md#: no such heading",
	}, deadLinks(t, repository))

	long, sum := tooLong(t, fstest.MapFS{
		"README.md":     file("is not counted"),
		"go.work":       file(""),
		"docs/long.md":  file("| one | two, | `3` |\n| --- | --- | --- |\n\n```go\nnot these\n```\n\n- four"),
		"docs/short.md": file("one two\n\n    not these\n\nthree"),
	}, 3)
	require.Equal(t, []string{"docs/long.md: 4 words"}, long)
	require.Equal(t, 7, sum)
}

// uncompiled returns the blocks of Go code in the documents that are not in a compiled
// file, as contiguous lines with any common indentation.
func uncompiled(t *testing.T, repository fs.FS) (wrong []string) {
	sources := compiled(t, repository)
	all := documents(t, repository)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, block := range all[name].Blocks {
			switch {
			case block.LooksLikeGo():
				wrong = append(wrong, fmt.Sprintf("%s:%d: Go code in a block without a language", name, block.Line))
			case len(block.Code) > 0 && (block.Language == "go" || block.Language == "golang"):
				if !isQuoted(block.Code, sources) {
					wrong = append(wrong, fmt.Sprintf("%s:%d: no compiled file has this code", name, block.Line))
				}
			}
		}
	}
	return wrong
}

// isQuoted reports whether one of the sources has this code, with any indentation of Go code.
func isQuoted(code, sources []string) bool {
	for n := range 8 {
		text := indented(code, strings.Repeat("\t", n))
		if slices.ContainsFunc(sources, func(source string) bool { return strings.Contains("\n"+source, text) }) {
			return true
		}
	}
	return false
}

// indented returns code between two ends of lines. In place of the first line's indentation, each line
// that is not blank has that one.
func indented(code []string, by string) string {
	own := code[0][:len(code[0])-len(strings.TrimLeft(code[0], " \t"))]
	text := "\n"
	for _, line := range code {
		if strings.TrimSpace(line) != "" {
			text += by + strings.TrimRight(strings.TrimPrefix(line, own), " \t")
		}
		text += "\n"
	}
	return text
}

// compiled returns the Go files that documents may quote: those that
// are examples or the documents' own, and that make lint compiles.
func compiled(t *testing.T, repository fs.FS) (sources []string) {
	context := build.Default
	context.OpenFile = func(name string) (io.ReadCloser, error) { return repository.Open(name) }
	context.JoinPath = path.Join
	for _, name := range files(t, repository, ".go") {
		quotable := strings.HasPrefix(name, "examples/") || strings.HasPrefix(name, "docs/code/") || name == "readme_test.go"
		for _, pattern := range []string{"example_*_test.go", "example_test.go", "zktest/example_*_test.go", "zktest/example_test.go"} {
			is, err := path.Match(pattern, name)
			require.NoError(t, err)
			quotable = quotable || is
		}
		if !quotable {
			continue
		}
		if is, err := context.MatchFile(path.Dir(name), path.Base(name)); err != nil || !is {
			require.NoError(t, err)
			continue
		}
		sources = append(sources, read(t, repository, name))
	}
	for _, name := range []string{"zkkrb5/example_test.go", "zkotel/example_test.go", "zkprom/example_test.go"} { // modules that make lint compiles
		if _, err := fs.Stat(repository, name); err == nil {
			sources = append(sources, read(t, repository, name))
		}
	}
	return sources
}

// deadLinks returns the relative links and images in the documents that lead nowhere.
func deadLinks(t *testing.T, repository fs.FS) (dead []string) {
	all := documents(t, repository)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, link := range all[name].Links {
			says := func(what string) {
				dead = append(dead, fmt.Sprintf("%s:%d: %s: %s", name, link.Line, link.Target, what))
			}
			to, err := url.Parse(link.Target)
			if err != nil {
				says(err.Error())
				continue
			}
			if to.Scheme != "" || to.Host != "" {
				continue
			}
			target := name
			switch {
			case strings.HasPrefix(to.Path, "/"): // of the repository, as on GitHub
				target = path.Join(".", to.Path[1:])
			case to.Path != "":
				target = path.Join(path.Dir(name), to.Path)
			}
			if _, err := fs.Stat(repository, target); err != nil {
				says("no such file")
			} else if strings.Contains(link.Target, "#") && (all[target] == nil || !all[target].Anchors[to.Fragment]) {
				says("no such heading")
			}
		}
	}
	return dead
}

// documents returns all Markdown files.
func documents(t *testing.T, repository fs.FS) map[string]*markdown.Document {
	all := map[string]*markdown.Document{}
	for _, name := range files(t, repository, ".md") {
		all[name] = markdown.Parse(read(t, repository, name))
	}
	require.Contains(t, all, "README.md")
	return all
}

// files returns the repository's files with a suffix; of Go files only those that go vet ./...
// may compile in one of the modules of go.work.
func files(t *testing.T, repository fs.FS, suffix string) (names []string) {
	modules := strings.Fields(read(t, repository, "go.work"))
	require.NoError(t, fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != ".":
			_, err := fs.Stat(repository, path.Join(name, "go.mod"))
			base := path.Base(name)
			foreign := err == nil && !slices.Contains(modules, "./"+name)
			if (suffix == ".go" && (foreign || base == "testdata" || base[0] == '_')) || base[0] == '.' {
				return fs.SkipDir
			}
		case strings.HasSuffix(name, suffix):
			names = append(names, name)
		}
		return nil
	}))
	return names
}

func read(t *testing.T, repository fs.FS, name string) string {
	data, err := fs.ReadFile(repository, name)
	require.NoError(t, err)
	return string(data)
}
