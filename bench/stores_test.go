package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that dies with a lock is this program, started anew.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == holdMode {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestWhatIsComparedIsMeasuredOrNamedAsMissing(t *testing.T) {
	ctx := quick(t)
	lab := testLab(t, ctx)
	rep := new(report)
	require.NoError(t, lab.besideStores(ctx, config{short: true}, rep))
	started := []string{ours}
	for _, line := range rep.Machine {
		require.Regexp(t, `^\d+\.\d+\.\d+$|^not measured: there is no `, line[1])
		if line[1][0] != 'n' {
			started = append(started, line[0])
		}
	}
	require.Len(t, rep.Stores, 3*len(started), "a free lock, 2 and 16 clients")
	require.Len(t, rep.Passes, 2*len(started))
	for i, d := range rep.Deaths {
		require.Equal(t, started[i], d.System)
		require.NotZero(t, d.Least())
	}
	require.Len(t, rep.Deaths, len(started))

	t.Setenv("PATH", t.TempDir())
	rep = new(report)
	list, end, err := lab.systems(ctx, true, rep)
	require.NoError(t, err)
	require.NoError(t, end())
	require.Len(t, list, 1)
	require.Equal(t, [][2]string{
		{etcd, "not measured: there is no etcd (Debian: etcd-server)"},
		{redisS, "not measured: there is no redis-server (Debian: redis-server)"},
	}, rep.Machine)
}
