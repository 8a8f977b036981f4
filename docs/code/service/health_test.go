package service

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	wait = time.Minute
	tick = time.Millisecond
)

func TestAProcessIsReadyWhileItIsConnectedAndAliveAlways(t *testing.T) {
	srv := zktest.NewServer(t)
	h := &Health{}
	code := func(probe http.HandlerFunc) int {
		w := httptest.NewRecorder()
		probe(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code
	}
	require.Equal(t, http.StatusOK, code(h.Alive))
	require.Equal(t, http.StatusServiceUnavailable, code(h.Ready), "Dial has not returned")
	client := codetest.Dial(t, srv)
	h.Client.Store(client)
	require.Equal(t, http.StatusOK, code(h.Ready))
	srv.Stop()
	require.Eventually(t, func() bool { return code(h.Ready) == http.StatusServiceUnavailable }, wait, tick)
	require.Equal(t, http.StatusOK, code(h.Alive))
	srv.Restart()
	require.Eventually(t, func() bool { return code(h.Ready) == http.StatusOK }, wait, tick)
}
