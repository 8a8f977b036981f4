package sessions

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// output is written by the client's goroutine.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(p)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.String()
}

func TestTheLastRecordsOfAClientAreWritten(t *testing.T) {
	srv := zktest.NewServer(t)
	var out output
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	expired := false
	require.NoError(t, run(t.Context(), []string{srv.Addr()}, logger, func(client *zkrecipes.Client) {
		lease, err := zkrecipes.NewMutex(client, "/locks/orders").Lock(t.Context())
		require.NoError(t, err)
		srv.Expire(srv.Sessions()[0].ID)
		<-lease.Context(t.Context()).Done()
		expired = true
	}))
	require.True(t, expired)
	require.Contains(t, out.text(), "session over")
	require.Empty(t, srv.Sessions())
}
