package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWorkInTheBackgroundThatHasEndedIsForgotten(t *testing.T) {
	at := At{Client: New(Config{Servers: []string{"127.0.0.1:1"}}, nil), Path: "/a"}
	for range 3 {
		<-at.Background(func() {})
		require.NoError(t, at.AwaitAbandoned(t.Context()))
	}
	end := make(chan struct{})
	require.True(t, at.Abandon(end))
	at.EndAbandoned(end)
	require.False(t, at.Abandon(end), "it has ended already")
	require.Empty(t, at.Client.background.abandoned)
}
