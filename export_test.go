package zkrecipes

import (
	"context"
	"log/slog"

	"github.com/zkrecipes/zkrecipes/internal/line"
)

// What the root's tests see of its inside. Tests of other packages see what recipetest gives.

var (
	ErrWentBack   = errWentBack
	ErrZeroValue  = errZeroValue
	ErrLeaderLeft = errLeaderLeft
	Fail          = fail
	StartAcquire  = startAcquire
	AcquisitionIn = acquisitionIn
	ParseServer   = parseServer
)

const (
	MaxHookCalls  = maxHookCalls
	TracePanicked = tracePanicked
)

// End ends the acquisition.
func (a *acquisition) End(g *line.Grant, err error) { a.end(g, err) }

// NewHooks returns hooks that log to logger.
func NewHooks(logger *slog.Logger) *hooks { return &hooks{logger: logger} }

// Tell calls f, later.
func (h *hooks) Tell(f func(dropped int)) { h.tell(f) }

// Log logs, later.
func (h *hooks) Log(level slog.Level, msg string) { h.log(level, msg) }

// HooksRun reports whether the client's hooks are being called.
func HooksRun(c *line.Client) bool {
	h := hooksOf(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running
}

// FollowFrom observes the election as if it had seen a leader with this czxid and mzxid.
func (e *Election) FollowFrom(ctx context.Context, zxid int64) error {
	o := &observation{yield: func(Leader, error) bool { return true }, czxid: zxid, mzxid: zxid}
	return e.self().inSessions(ctx, "observe", o.follow)
}
