package session

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A session has room for a limited number of znodes, see ErrSessionFull. zkconn.Session keeps
// the account. Here are the calls that tell it what no reply did.

// onNearlyFull logs that the session has passed 3/4 of its limit.
func (s *Session) onNearlyFull(load zkconn.Load) {
	s.Client.Log(slog.LevelWarn, "session is getting full",
		"session", s.name(), "znodes", load.Znodes, "bytes", load.Bytes, "max", load.Bound)
}

// NoteSeen notes what a read of a znode's Stat tells, which this session may have created. creates is
// Creates from before the read.
func (s *Session) NoteSeen(creates int64, path string, stat *zk.Stat, err error) {
	if errors.Is(err, zk.ErrNoNode) || err == nil && stat.EphemeralOwner != s.ID() {
		s.NoteGoneSince(creates, path)
	}
}

// NoteWatched is like NoteSeen for a watch.
func (s *Session) NoteWatched(creates int64, path string, w *zkconn.Watch, err error) {
	var stat *zk.Stat
	if err == nil {
		stat = &w.Stat
	}
	s.NoteSeen(creates, path, stat, err)
}

// fullPause is between two tries of a Serve to take an item, or of a Lead to campaign, while
// the session is full.
const fullPause = time.Second

func (c *Client) PauseWhileFull(ctx context.Context) error {
	select {
	case <-time.After(fullPause):
		return nil
	case <-ctx.Done():
		return c.ContextErr(ctx)
	}
}
