package zktest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestFourLetterWords(t *testing.T) {
	srv := zktest.NewServer(t)
	for word, want := range map[string]string{
		"ruok": "imok", "conf": "tickTime=50\n", "envi": "zookeeper.version=3.9.",
		// The root, its alias, and three of /zookeeper.
		"srvr": "\nMode: standalone\nNode count: 5\n", "mntr": "\nzk_znode_count\t5\n",
	} {
		require.Contains(t, conformance.On(t, srv).FourLetterWord(word), want)
	}
	require.True(t, zk.FLWRuok([]string{srv.Addr()}, time.Second)[0])
	_, ok := zk.FLWSrvr([]string{srv.Addr()}, time.Second)
	require.False(t, ok, "as with a real server: go-zookeeper expects a date of another form")
}

func TestDumpListsSessionsAndEphemerals(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zktest.Server) {
		expires := time.Now().Add(11 * time.Second).Format(time.UnixDate)
		c := open(t, srv)
		c.Ok(conformance.Ephemeral("/e"))
		require.Equal(t, fmt.Sprintf("SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at %s:\n\t0x%x\n"+
			"ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x%x:\n\t/e\n", expires, c.ID, c.ID),
			conformance.On(t, srv).FourLetterWord("dump"))
	}, zktest.TickTime(time.Second))
}
