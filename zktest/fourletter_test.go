package zktest

import (
	"fmt"
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// ask sends a four-letter word and returns the reply.
func ask(t *testing.T, srv *Server, word string) string {
	t.Helper()
	c := dialRaw(t, srv)
	c.write([]byte(word))
	reply, err := io.ReadAll(c.nc)
	require.NoError(t, err)
	return string(reply)
}

func TestFourLetterWords(t *testing.T) {
	srv := NewServer(t)
	for word, want := range map[string]string{
		"ruok": "imok", "srvr": "Mode: standalone", "mntr": "zk_server_state\tstandalone",
		"conf": "tickTime=50\n", "envi": "zookeeper.version=3.9.",
	} {
		require.Contains(t, ask(t, srv, word), want)
	}
	require.True(t, zk.FLWRuok([]string{srv.Addr()}, time.Second)[0])
	_, ok := zk.FLWSrvr([]string{srv.Addr()}, time.Second)
	require.False(t, ok, "as with a real server: go-zookeeper expects a date of another form")
}

func TestSrvrTellsTheVersion(t *testing.T) {
	for version, want := range map[Version]string{ZooKeeper38: "3.8.0-", ZooKeeper39: "3.9.3-"} {
		answer := ask(t, NewServer(t, Emulate(version)), "srvr")
		require.Regexp(t, `^Zookeeper version: `+regexp.QuoteMeta(want)+`.*, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC\n`, answer)
	}
}

func TestNodeCountIncludesTheRootTwice(t *testing.T) {
	srv := NewServer(t)
	require.Contains(t, ask(t, srv, "srvr"), "\nNode count: 5\n", "the root, its alias, and three of /zookeeper")
	require.Contains(t, ask(t, srv, "mntr"), "\nzk_znode_count\t5\n")
}

func TestDumpListsSessionsAndEphemerals(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *Server) {
		c := dialSession(t, srv, 0, nil, 0)
		c.create("/e", jute.FlagEphemeral)
		id := srv.Sessions()[0].ID
		expires := srv.started.Add(11 * time.Second).Format(time.UnixDate)
		require.Equal(t, fmt.Sprintf("SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at %s:\n\t0x%x\n"+
			"ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x%x:\n\t/e\n", expires, id, id), ask(t, srv, "dump"))
	}, TickTime(time.Second))
}
