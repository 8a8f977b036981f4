package recipetest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Load returns what the client's session counts.
func Load(c *zkrecipes.Client) zkconn.Load {
	s, _ := Core(c).Session()
	return s.Load()
}

// Bears returns the size of the paths of the client's ephemeral znodes on the server.
func (w *World) Bears(c *zkrecipes.Client) (bytes int) {
	owner := fmt.Sprintf(" ephemeral=0x%x", SessionID(c))
	for line := range strings.Lines(w.Srv.Tree()) {
		if strings.Contains(line, owner) {
			bytes += zkconn.Weight(line[:strings.IndexByte(line, ' ')], false)
		}
	}
	return bytes
}

// Accounted requires, once all is quiet, that the client counts what is on the server.
func (w *World) Accounted(c *zkrecipes.Client) {
	w.T.Helper()
	synctest.Wait()
	require.Equal(w.T, w.Bears(c), Load(c).Bytes, "%s", w.Srv.Tree())
}

// RoomFor returns options for a session that has room for about n places in w.path's line.
func (w *World) RoomFor(n int) *zkrecipes.Options {
	place := zkconn.Weight(w.Path+"/_c_"+placename.NoUUID+"-"+string(placename.KindLock), true)
	return &zkrecipes.Options{MaxBuffer: (n*place + place/2) * 10 / 9}
}

// Warnings are the texts and attributes of the warnings of a Logger.
type Warnings struct {
	slog.Handler
	mu  sync.Mutex
	all []string
}

func (l *Warnings) Logger() *slog.Logger {
	l.Handler = slog.DiscardHandler
	return slog.New(l)
}

func (l *Warnings) Enabled(context.Context, slog.Level) bool { return true }

func (l *Warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return nil
	}
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, text)
	return nil
}

// With returns the warnings that contain text.
func (l *Warnings) With(text string) (some []string) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if strings.Contains(one, text) {
			some = append(some, one)
		}
	}
	return some
}

// LockMany takes n locks of their own.
func (w *World) LockMany(c *zkrecipes.Client, n int) (ls []*zkrecipes.Lease) {
	w.T.Helper()
	for i := range n {
		ls = append(ls, LockOn(w.T, zkrecipes.NewMutex(c, fmt.Sprintf("/lk%02d", i))))
	}
	return ls
}

func FullErr(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
}
