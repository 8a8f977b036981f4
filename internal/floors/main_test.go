package main

import (
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImportsThatGoUpAreFound(t *testing.T) {
	require.Equal(t, []string{"internal/wire must not import .", "internal/zkconn must not import internal/queuelog"}, check(map[string][]string{
		module:                       {"context", module + "/internal/zkconn"},
		module + "/internal/zkconn":  {module + "/internal/wire", module + "/internal/queuelog"},
		module + "/internal/wire":    {"net", module},
		"github.com/go-zookeeper/zk": {"net"},
	}))
}

// Users of the root must not get what the modules below its directory need. So no package of the
// root imports them, not even in a test.
func TestTheRootImportsNoModuleBelowIt(t *testing.T) {
	golang := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = filepath.Join("..", "..")
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	var below []string
	for _, m := range strings.Fields(golang("list", "-m")) {
		if m != module {
			below = append(below, m)
		}
	}
	require.Contains(t, below, module+"/zkkrb5")
	require.Contains(t, below, module+"/zkotel")
	require.Contains(t, below, module+"/zkprom")
	imports := golang("list", "-f", `{{join .Imports "\n"}}{{"\n"}}{{join .TestImports "\n"}}{{"\n"}}{{join .XTestImports "\n"}}`, "./...")
	for imported := range strings.FieldsSeq(imports) {
		for _, m := range below {
			require.False(t, imported == m || strings.HasPrefix(imported, m+"/"), imported)
		}
	}
	required := golang("list", "-m", "-f", "{{.GoMod}}", module)
	for _, m := range below {
		require.NotContains(t, golang("mod", "edit", "-json", strings.TrimSpace(required)), m)
	}
}

// What floors names as below is itself on a floor.
func TestEveryPackageThatMayBeImportedIsListed(t *testing.T) {
	for from, below := range floors {
		for _, to := range below {
			require.Contains(t, floors, to, "below %s", from)
		}
	}
}

func TestExportedNamesAreCountedWithMethodsAndFields(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "f.go", `package f
		type T struct { A, b int; C string; embedded }
		type t interface { M() }
		func (t *T) M() {}
		func (t T) m() {}
		func F() { type Local int }
		const ( G, h = 1, 2 )
		var V = 1`, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"T", "T.A", "T.C", "T.M", "F", "G", "V"}, exported(f))
}
