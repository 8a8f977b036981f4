package main

import (
	"go/parser"
	"go/token"
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
