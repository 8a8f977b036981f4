package zkrecipes

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// A session has room for a limited number of znodes, see ErrSessionFull. zkconn.Session keeps
// the account. Here are the calls that look before they send anything, and those that tell it
// what no reply did.

// noUUID has the length of a uuid.
var noUUID = strings.Repeat("0", 36)

// checkRoom returns ErrSessionFull if the session has no room for a place in the line. Else
// a line might be created, in which nobody ever stands.
func (l *line) checkRoom(s *session, k kind) error {
	return s.CheckRoom(zkconn.Weight(l.abs()+"/_c_"+noUUID+"-"+string(k), true))
}

// onNearlyFull logs that the session has passed 3/4 of its limit.
func (s *session) onNearlyFull(load zkconn.Load) {
	s.c.log(slog.LevelWarn, "session is getting full",
		"session", s.name(), "znodes", load.Znodes, "bytes", load.Bytes, "max", load.Bound)
}

// noteSeen notes what a read of a znode's Stat tells, which this session may have created.
func (s *session) noteSeen(path string, stat *zk.Stat, err error) {
	if errors.Is(err, zk.ErrNoNode) || err == nil && stat.EphemeralOwner != s.ID() {
		s.NoteGone(path)
	}
}

// noteWatched is like noteSeen for a watch.
func (s *session) noteWatched(path string, w *zkconn.Watch, err error) {
	var stat *zk.Stat
	if err == nil {
		stat = &w.Stat
	}
	s.noteSeen(path, stat, err)
}

// fullPause is between two tries of a Serve to take an item, or of a Lead to campaign, while
// the session is full.
const fullPause = time.Second

func (c *client) pauseWhileFull(ctx context.Context) error {
	select {
	case <-time.After(fullPause):
		return nil
	case <-ctx.Done():
		return c.contextErr(ctx)
	}
}
