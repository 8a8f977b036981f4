package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// kazooCounts adds 1 to a counter of kazoo's 100 times, then -7, and prints the value.
const kazooCounts = `
import sys
from kazoo.client import KazooClient
client = KazooClient(hosts=sys.argv[1])
client.start()
counter = client.Counter(sys.argv[2])
for _ in range(100):
    counter += 1
counter -= 7
print(counter.value)
client.stop()
`

// kazoo and this library add to one counter at the same time, whichever has created it.
func TestKazoosCounterIsTheSame(t *testing.T) {
	command, err := kazooCommand(t.Context(), t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	srv := zktest.NewServer(t)
	client := recipetest.DialTo(t, []string{srv.Addr()}, nil)
	_, err = harness.RawVia(t, srv.Dial, srv.Addr()).Create("/kazoos", nil, 0, zk.WorldACL(zk.PermAll)) // as kazoo creates it
	require.NoError(t, err)
	for path, first := range map[string]bool{"/created/here": true, "/kazoos": false} {
		counter := zkrecipes.NewCounter(client, path)
		want := int64(93)
		if first {
			_, err := counter.Add(t.Context(), 1000)
			require.NoError(t, err)
			want += 1000
		}
		var out, stderr strings.Builder
		kazoo := exec.CommandContext(t.Context(), command[0], "-c", kazooCounts, srv.Addr(), path)
		kazoo.Stdout, kazoo.Stderr = &out, &stderr
		require.NoError(t, kazoo.Start())
		const adds = 200 // kazoo pauses when it was slower, and would not come to its turn beside more
		for range adds {
			_, err := counter.Add(t.Context(), 1)
			require.NoError(t, err)
		}
		require.NoError(t, kazoo.Wait(), stderr.String())
		v, err := counter.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, want+adds, v)
		require.NotEmpty(t, strings.TrimSpace(out.String()))
	}
}
