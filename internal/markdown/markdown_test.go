package markdown

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const sample = "# A `Mutex`, and [why](why.md)\n" +
	"\n" +
	"[one](a.md \"title\") and ![two](b.svg), [![badge](c.svg)](https://example.com)\n" +
	"`[not](in/code.md)` <a href=\"d.md\">three</a> <a id=\"here\"></a>\n" +
	"\n" +
	"```go\n" +
	"x := [2](int)(nil)\n" +
	"```\n" +
	"\n" +
	"    make demo   # [no](demo.md)\n" +
	"\n" +
	"- a list\n" +
	"    which goes on := and on\n" +
	"\n" +
	"  ~~~\n" +
	"  func main() {}\n" +
	"  ```\n" +
	"  ~~~\n" +
	"[ref]: e.md#part\n" +
	"## What's new? ##\n" +
	"## What's new?\n" +
	"Text\n" +
	"\n" +
	"    y := 1\n"

func TestBlocksAreFoundWithTheirLanguageAndLine(t *testing.T) {
	blocks := Parse(sample).Blocks
	require.Len(t, blocks, 4)
	require.Equal(t, Block{Line: 7, Language: "go", Code: []string{"x := [2](int)(nil)"}}, blocks[0])
	require.False(t, blocks[0].LooksLikeGo(), "it has a language")
	require.Equal(t, 10, blocks[1].Line)
	require.False(t, blocks[1].LooksLikeGo())
	require.Equal(t, Block{Line: 16, Code: []string{"  func main() {}", "  ```"}}, blocks[2])
	require.True(t, blocks[2].LooksLikeGo())
	require.Equal(t, 24, blocks[3].Line)
	require.True(t, blocks[3].LooksLikeGo(), "indented code")
}

func TestLinksAreFoundOutsideCode(t *testing.T) {
	var targets []string
	for _, link := range Parse(sample).Links {
		targets = append(targets, link.Target)
	}
	require.Equal(t, []string{"why.md", "a.md", "b.svg", "c.svg", "https://example.com", "d.md", "e.md#part"}, targets)
}

func TestAnchorsAreGitHubs(t *testing.T) {
	require.Equal(t, map[string]bool{
		"a-mutex-and-why": true, "whats-new": true, "whats-new-1": true, "here": true,
	}, Parse(sample).Anchors)
	for text, want := range map[string]string{
		"Two commands":               "two-commands",
		"API: `Lock`/`TryLock` & co": "api-locktrylock--co",
		"[1.0.0] - 2026-01-02":       "100---2026-01-02",
		"snake_case, Ünïcode":        "snake_case-ünïcode",
	} {
		require.Equal(t, want, slug(text))
	}
}
