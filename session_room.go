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

// A session has room for a limited number of znodes, see ErrSessionFull. zkconn.Session keeps the
// account. Here are the calls that look before they send anything, and those that tell it
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
	s.c.hooks.log(slog.LevelWarn, "session is getting full",
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

func (c *Client) pauseWhileFull(ctx context.Context) error {
	select {
	case <-time.After(fullPause):
		return nil
	case <-ctx.Done():
		return c.contextErr(ctx)
	}
}

// enterWithRoom is like enterAsLeader. As long as the session has no room for a candidate, it
// tries again, without a place in the line: others lead meanwhile.
func (l *line) enterWithRoom(ctx context.Context, k kind, value []byte) (*grant, error) {
	for logged := false; ; logged = true {
		g, err := l.enterAsLeader(ctx, k, value)
		if !errors.Is(err, ErrSessionFull) {
			return g, err
		}
		if !logged {
			l.c.hooks.log(slog.LevelWarn, "session is full; it does not campaign until there is room", "path", l.path, "err", err)
		}
		if err := l.c.pauseWhileFull(ctx); err != nil {
			return nil, err
		}
	}
}

// takeWithRoom takes an item. As long as the session has no room for one, it tries again,
// without a place in the line: others take the items meanwhile. It passes over items that
// cannot be moved to the dead letters, which stay claimed for a while.
func (s *serving) takeWithRoom(ctx context.Context) ([]*Item, error) {
	for {
		items, err := s.takeN(ctx, 1)
		if unmoved := (*unmovedError)(nil); errors.As(err, &unmoved) && ctx.Err() == nil {
			continue
		}
		if !errors.Is(err, ErrSessionFull) {
			s.full.Store(false)
			return items, err
		}
		if !s.full.Swap(true) {
			s.c.hooks.log(slog.LevelWarn, "session is full; no items are taken until there is room", "queue", s.path, "err", err)
		}
		if err := s.c.pauseWhileFull(ctx); err != nil {
			return nil, err
		}
	}
}

// deleteOps delete the claim, and give the item back.
func (c *claim) deleteOps(bool) []any {
	ops := c.ackOps(false)
	return []any{ops.flag, ops.exclusion}
}

// leaveOps delete the place and the leader's znode. nil: it is not known whether that is
// this candidate's.
func (c *candidate) leaveOps(signal bool) []any {
	if c.czxid == 0 || c.leaderGone.Load() {
		return nil
	}
	return append(c.exitOps(signal).ops, &zk.DeleteRequest{Path: c.leader, Version: -1})
}
