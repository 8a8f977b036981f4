package zkconn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

func TestAWatchFiresBeforeItsEventIsPassedOn(t *testing.T) {
	key := watchKey{"/a", ofData}
	w := &Watch{key: key, fired: make(chan struct{})}
	passed := false
	s := &Session{watches: map[watchKey]*Watch{key: w}, account: newAccount(jute.MaxFrame)}
	s.cfg.Event = func(wire.Event) {
		passed = true
		require.True(t, w.HasFired())
	}
	s.onEvent(wire.Event{Path: key.path, Type: jute.EventDeleted})
	require.True(t, passed)
}
