package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestHelloLeavesNothingHeld(t *testing.T) {
	srv := zktest.NewServer(t)
	require.NoError(t, run(t.Context(), srv.Addr()))
	require.Empty(t, srv.Children("/locks/hello"))
	require.Empty(t, srv.Sessions())
}

func TestHelloBringsAServerOfItsOwn(t *testing.T) {
	require.NoError(t, run(t.Context(), ""))
}
