package zkrecipes

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Helpers for tests of what a session may bear.

// load returns what the client's session counts.
func load(c *Client) zkconn.Load {
	s, _ := c.client.Session()
	return s.Load()
}

// bears returns the size of the paths of the client's ephemeral znodes on the server.
func (w *world) bears(c *Client) (bytes int) {
	owner := fmt.Sprintf(" ephemeral=0x%x", sessionID(c))
	for line := range strings.Lines(w.srv.Tree()) {
		if strings.Contains(line, owner) {
			bytes += zkconn.Weight(line[:strings.IndexByte(line, ' ')], false)
		}
	}
	return bytes
}

// accounted requires, once all is quiet, that the client counts what is on the server.
func (w *world) accounted(c *Client) {
	w.t.Helper()
	synctest.Wait()
	require.Equal(w.t, w.bears(c), load(c).Bytes, "%s", w.srv.Tree())
}

// roomFor returns options for a session that has room for about n places in w.path's line.
func (w *world) roomFor(n int) *Options {
	place := zkconn.Weight(w.path+"/_c_"+line.NoUUID+"-"+string(line.KindLock), true)
	return &Options{MaxBuffer: (n*place + place/2) * 10 / 9}
}

// warnings are the texts and attributes of the warnings of a Logger.
type warnings struct {
	slog.Handler
	mu  sync.Mutex
	all []string
}

func (l *warnings) logger() *slog.Logger {
	l.Handler = slog.DiscardHandler
	return slog.New(l)
}

func (l *warnings) Enabled(context.Context, slog.Level) bool { return true }

func (l *warnings) Handle(_ context.Context, r slog.Record) error {
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

// with returns the warnings that contain text.
func (l *warnings) with(text string) (some []string) {
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

// lockMany takes n locks of their own.
func (w *world) lockMany(c *Client, n int) (ls []*Lease) {
	w.t.Helper()
	for i := range n {
		ls = append(ls, lockOn(w.t, NewMutex(c, fmt.Sprintf("/lk%02d", i))))
	}
	return ls
}

func fullErr(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, ErrSessionFull)
}
