package zkrecipes

import (
	"log/slog"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// What the root's tests see of its inside. Tests of other packages see what recipetest gives.

var (
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

// HoldOf returns what identifies the hold that a grant is.
func HoldOf(g *line.Grant) Hold { return Hold{g.Over} }

// NewHooks returns hooks that log to logger.
func NewHooks(logger *slog.Logger) *hooks { return &hooks{logger: logger} }

// Tell calls f, later.
func (h *hooks) Tell(f func(dropped int)) { h.tell(f) }

// Log logs, later.
func (h *hooks) Log(level slog.Level, msg string) { h.log(level, msg) }

// TellHooks calls f by the hooks of a client, later.
func TellHooks(c *session.Client, f func(dropped int)) { hooksOf(c).tell(f) }

// HooksRun reports whether the client's hooks are being called.
func HooksRun(c *session.Client) bool {
	h := hooksOf(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running
}
