//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Commands of the documents stand in code, and end where the shell's or the text's next word begins.
var documented = regexp.MustCompile("(?m)(?:^|[`( ])zkr ([a-z][^`|)#;\\n]*)")

func TestCommandsInTheDocumentsHaveTheseFlags(t *testing.T) {
	files, err := filepath.Glob("../../../../docs/*.md")
	require.NoError(t, err)
	flags := 0
	for _, file := range append(files, "../../../../README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		code := regexp.MustCompile("(?s)```sh\n.*?```|`[^`]+`").FindAllString(string(text), -1)
		for _, m := range documented.FindAllStringSubmatch(strings.Join(code, "\n"), -1) {
			root := (&app{}).root()
			root.InitDefaultHelpCmd()
			root.InitDefaultCompletionCmd()
			args := withDash(root, strings.Fields(strings.ReplaceAll(m[1], ",", "")))
			c, rest, err := root.Find(args)
			require.NoError(t, err, "%s: zkr %s", file, m[1])
			require.NotSame(t, root, c, "%s: zkr %s", file, m[1])
			for _, arg := range rest {
				if arg == "--" {
					break
				}
				if name, long := strings.CutPrefix(arg, "--"); long {
					require.NotNil(t, c.Flag(name), "%s: zkr %s", file, m[1])
					flags++
				} else if len(arg) == 2 && arg[0] == '-' {
					c.InheritedFlags() // adds them
					require.NotNil(t, c.Flags().ShorthandLookup(arg[1:]), "%s: zkr %s", file, m[1])
					flags++
				}
			}
		}
	}
	require.Greater(t, flags, 10)
}
