//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
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
			args := strings.Fields(strings.ReplaceAll(m[1], ",", ""))
			setArgs(root, args)
			c, args, err := root.Find(args)
			require.NoError(t, err, "%s: zkr %s", file, m[1])
			require.NotSame(t, root, c, "%s: zkr %s", file, m[1])
			c.InheritedFlags() // adds them
			parse := func(args []string) []string {
				err := c.Flags().ParseAll(args, func(*pflag.Flag, string) error { flags++; return nil })
				require.NoError(t, err, "%s: zkr %s", file, m[1])
				return c.Flags().Args()
			}
			operands := parse(args)
			if _, runs := c.Annotations[runsCommand]; runs && len(operands) > 0 {
				parse(operands[1:]) // flags go on behind PATH
			}
		}
	}
	require.Greater(t, flags, 10)
}
