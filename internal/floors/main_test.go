package main

import (
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
