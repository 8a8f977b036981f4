package recipetest

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Bears returns the size of the paths of the client's ephemeral znodes on the server.
func (w *World) Bears(c *zkrecipes.Client) (bytes int) {
	for _, path := range w.SessionOf(c).Ephemerals {
		bytes += zkconn.Weight(path, false)
	}
	return bytes
}

// Accounted requires, once all is quiet, that the client counts what is on the server. No reply
// was lost.
func (w *World) Accounted(c *zkrecipes.Client) {
	w.T.Helper()
	w.Covered(c)
	require.Equal(w.T, w.Bears(c), c.Status().ZnodeBytes, "%s", w.Srv.Tree())
}

// Covered requires, once all is quiet, that the client counts at least what is on the server.
func (w *World) Covered(c *zkrecipes.Client) {
	w.T.Helper()
	synctest.Wait()
	require.LessOrEqual(w.T, w.Bears(c), c.Status().ZnodeBytes, "%s", w.Srv.Tree())
}

// RoomFor returns options for a session that has room for about n places in w.path's line.
func (w *World) RoomFor(n int) *zkrecipes.Options {
	place := zkconn.Weight(w.Path+"/_c_"+layout.NoUUID+"-"+string(layout.KindLock), true)
	return &zkrecipes.Options{MaxBuffer: (n*place + place/2) * 10 / 9}
}

// Warnings are the warnings of a Logger, each a line of text.
type Warnings struct{ Records }

func (l *Warnings) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&l.Records, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Verbose returns a logger that keeps the records of all levels.
func (l *Warnings) Verbose() *slog.Logger {
	return slog.New(slog.NewTextHandler(&l.Records, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// With returns the records that contain text.
func (l *Warnings) With(text string) (some []string) {
	synctest.Wait()
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			some = append(some, line)
		}
	}
	return some
}

// LockMany takes n locks of their own. Between them the client may recount what the session has,
// which it does in the background.
func (w *World) LockMany(c *zkrecipes.Client, n int) (ls []*zkrecipes.Lease) {
	w.T.Helper()
	for i := range n {
		ls = append(ls, LockOn(w.T, zkrecipes.NewMutex(c, fmt.Sprintf("/lk%02d", i))))
		synctest.Wait()
	}
	return ls
}

func FullErr(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
}
