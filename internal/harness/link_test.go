package harness_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// As on TCP. While the link is stopped, no deadline passes.
func TestALinksReadEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := harness.NewLink(zktest.NewServer(t, zktest.InMemory()))
		nc, err := link.Dial(t.Context(), "tcp", "")
		require.NoError(t, err)
		defer nc.Close()
		read := func(stopped time.Duration) {
			began := time.Now()
			require.NoError(t, nc.SetDeadline(began.Add(time.Second)))
			if stopped > 0 {
				link.Stop()
				time.AfterFunc(stopped, link.Resume)
			}
			_, err := nc.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Equal(t, max(time.Second, stopped), time.Since(began))
		}
		read(0)
		read(time.Second / 2)
		read(2 * time.Second)
	})
}
