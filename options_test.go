package zkrecipes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

func TestServersAreHostsWithOrWithoutAPort(t *testing.T) {
	for server, want := range map[string]string{
		"h": "h:2181", "h:1": "h:1", "1.2.3.4": "1.2.3.4:2181", "1.2.3.4:99": "1.2.3.4:99",
		"::1": "[::1]:2181", "[::1]": "[::1]:2181", "[::1]:99": "[::1]:99",
	} {
		got, err := zkrecipes.ParseServer(server)
		require.NoError(t, err, server)
		require.Equal(t, want, got)
	}
	for _, server := range []string{"", ":1", "h:", "h:x", "h:0", "h:65536", "h:2181/chroot", "a:b:c", "a,b", "a b"} {
		_, err := zkrecipes.ParseServer(server)
		require.ErrorContains(t, err, "is not host or host:port", server)
	}
}

func TestConnectStringIsSplitIntoServersAndPrefix(t *testing.T) {
	for connect, want := range map[string][]string{
		"zk1:2181,zk2:2182/app":   {"/app", "zk1:2181", "zk2:2182"},
		"zk1":                     {"", "zk1:2181"},
		" zk1 , zk2:1 /a/b":       {"/a/b", "zk1:2181", "zk2:1"},
		"zk1/":                    {"", "zk1:2181"},
		"[::1]:2182,::1,10.0.0.1": {"", "[::1]:2182", "[::1]:2181", "10.0.0.1:2181"},
	} {
		servers, prefix, err := zkrecipes.ParseServers(connect)
		require.NoError(t, err, connect)
		require.Equal(t, want, append([]string{prefix}, servers...), connect)
	}
	for connect, want := range map[string]string{
		"":            `zkrecipes: parse servers "": no servers`,
		"/app":        `zkrecipes: parse servers /app: no servers`,
		"zk1,,zk2":    `zkrecipes: parse servers zk1,,zk2: server "" is not host or host:port`,
		"zk1:0":       `zkrecipes: parse servers zk1:0: server "zk1:0" is not host or host:port`,
		"zk1:x/app":   `zkrecipes: parse servers zk1:x/app: server "zk1:x" is not host or host:port`,
		"zk1 zk2/app": `zkrecipes: parse servers "zk1 zk2/app": server "zk1 zk2" is not host or host:port`,
		"zk1/a//b":    `prefix "/a//b"`,
		"zk1/a/":      `prefix "/a/"`,
		"zk1/a/../b":  `prefix "/a/../b"`,
	} {
		servers, prefix, err := zkrecipes.ParseServers(connect)
		require.ErrorContains(t, err, want, connect)
		require.Empty(t, servers)
		require.Empty(t, prefix)
	}
	_, _, err := zkrecipes.ParseServers("zk1/a//b")
	require.ErrorIs(t, err, zkrecipes.ErrInvalidPath)
}
