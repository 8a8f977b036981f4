// Package codetest helps the tests of the documents' code.
package codetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Dial returns a Client of the server, closed at the end of the test.
func Dial(t *testing.T, srv *zktest.Server) *zkrecipes.Client {
	t.Helper()
	client, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, &zkrecipes.Options{Dialer: srv.DialContext})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// Together calls f n times, side by side, and requires that no call fails.
func Together(t *testing.T, n int, f func() error) {
	t.Helper()
	results := make(chan error, n)
	for range n {
		go func() { results <- f() }()
	}
	for range n {
		require.NoError(t, <-results)
	}
}
