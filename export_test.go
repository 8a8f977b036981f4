package zkrecipes

import (
	"log/slog"
	"reflect"
	"sync"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/hooks"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/look"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// What the root's tests see of its inside. Tests of other packages see what recipetest gives.

var (
	ErrZeroValue  = errZeroValue
	ErrLeaderLeft = look.ErrLeaderLeft
	StartAcquire  = startAcquire
)

const (
	MaxHookCalls  = hooks.MaxCalls
	TracePanicked = "trace function panicked"
)

// Core returns what makes the sessions of the Client.
func (c *Client) Core() *session.Client { return c.client }

// Line returns the line of the Mutex.
func (m *Mutex) Line() *line.Line { return m.line }

// Grant returns what the Lease is a handle of.
func (l *Lease) Grant() *hold.Grant { return l.handle.Grant }

// End ends the acquisition.
func (a *acquisition) End(g *hold.Grant, err error) { a.end(g, err) }

// HoldOf returns what identifies the hold that a grant is.
func HoldOf(g *hold.Grant) Hold { return Hold{g.Over} }

// NewHooks returns what calls functions and logs to logger.
func NewHooks(logger *slog.Logger) *hooks.Caller { return hooks.New(logger) }

// TellHooks calls f by the hooks of a client, later.
func TellHooks(c *session.Client, f func(dropped int)) { tracingOf(c).Tell(f) }

// HooksRun reports whether the client's hooks are being called.
func HooksRun(c *session.Client) bool {
	h := reflect.ValueOf(tracingOf(c).Caller).Elem()
	mu := (*sync.Mutex)(h.FieldByName("mu").Addr().UnsafePointer())
	mu.Lock()
	defer mu.Unlock()
	return h.FieldByName("running").Bool()
}
