package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckPathAcceptsWhatServersAccept(t *testing.T) {
	for _, path := range []string{"/a", "/a/b", "/ä/日本", "/a b", "/...", "/.a", "/a..b", "/\u00a0", "/\ud7ff", "/\uf900", "/\uffef"} {
		require.NoError(t, CheckPath(path), "%q", path)
	}
}

func TestCheckPathSaysWhatIsWrong(t *testing.T) {
	for path, want := range map[string]string{
		"":               "path is empty",
		"a":              `path does not begin with "/"`,
		"/":              "path is the root",
		"//":             `path ends with "/"`,
		"/a/":            `path ends with "/"`,
		"/a//b":          `path contains "//"`,
		"//a":            `path contains "//"`,
		"/.":             `path contains the relative element "."`,
		"/a/../b":        `path contains the relative element ".."`,
		"/a\xff":         "path is not valid UTF-8",
		"/a\x00":         "path contains the character U+0000 at byte 2",
		"/\x1f":          "path contains the character U+001F at byte 1",
		"/\x7f":          "path contains the character U+007F at byte 1",
		"/ä\u009f":       "path contains the character U+009F at byte 3",
		"/\ue000":        "path contains the character U+E000 at byte 1",
		"/\uf8ff":        "path contains the character U+F8FF at byte 1",
		"/\ufff0":        "path contains the character U+FFF0 at byte 1",
		"/\uffff":        "path contains the character U+FFFF at byte 1",
		"/😀":             "path contains the character U+1F600 at byte 1",
		"/a/b\U0010ffff": "path contains the character U+10FFFF at byte 4",
	} {
		require.EqualError(t, CheckPath(path), want, "%q", path)
	}
}
