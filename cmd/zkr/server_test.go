//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// dial connects the test itself.
func dial(t *testing.T, srv *zktest.Server) *zkrecipes.Client {
	t.Helper()
	return dialAs(t, srv, "")
}

func dialAs(t *testing.T, srv *zktest.Server, identity string) *zkrecipes.Client {
	t.Helper()
	return recipetest.DialTo(t, []string{srv.Addr()}, &zkrecipes.Options{Identity: identity})
}

// expireAll expires all sessions.
func expireAll(srv *zktest.Server) {
	for _, s := range srv.Sessions() {
		srv.Expire(s.ID)
	}
}

// evictAll deletes all places in the line.
func evictAll(t *testing.T, srv *zktest.Server, path string) {
	t.Helper()
	client := dial(t, srv)
	contenders, err := zkrecipes.NewMutex(client, path).Contenders(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, contenders)
	for _, c := range contenders {
		evicted, err := client.Evict(t.Context(), c, &zkrecipes.EvictOptions{Holder: true})
		require.NoError(t, err)
		require.True(t, evicted)
	}
}
