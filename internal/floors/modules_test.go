package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The go.sum of a program lists the modules that the tests of its imports need, too. What needs
// a large tree is a module of its own.
func TestAProgramThatImportsTheLibraryNamesTenModulesAtMost(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("main.go", `package main

import (
	_ "`+module+`"
	_ "`+module+`/zktest"
)

func main() {}
`)
	write("go.mod", "module example.com/program\n\ngo 1.26.0\n\n"+
		"require "+module+" v0.1.0\n\nreplace "+module+" => "+root+"\n")
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Dir = dir
	tidy.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := tidy.CombinedOutput()
	require.NoError(t, err, "%s", out)

	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	require.NoError(t, err)
	var named []string
	for line := range strings.Lines(string(sum)) {
		named = append(named, strings.Fields(line)[0])
	}
	named = slices.Compact(named) // go.sum is sorted
	require.Contains(t, named, "github.com/go-zookeeper/zk", "%s", sum)
	require.LessOrEqual(t, len(named), 10, "%q", named)
}
