package election

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/zkrecipes/zkrecipes/internal/hold"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Lead is the turn of a call of Election.Lead in its process. At most one has it, for a Client
// and path.
type Lead struct {
	// Grant is that with which it leads or has led, nil if there was none yet.
	Grant atomic.Pointer[hold.Grant]

	client *session.Client
	path   string
	end    chan struct{}
}

// leads are those of a Client.
type leads struct {
	mu     sync.Mutex
	byPath map[string]*Lead
}

func leadsOf(c *session.Client) *leads {
	return session.Attached(c, func() *leads { return &leads{byPath: map[string]*Lead{}} })
}

// BeginLead waits, until ctx ends, until no other call of Lead campaigns or leads on that path.
// End must be called in the end.
func BeginLead(ctx context.Context, c *session.Client, path string) (*Lead, error) {
	for all := leadsOf(c); ; {
		all.mu.Lock()
		busy := all.byPath[path]
		if busy == nil {
			mine := &Lead{client: c, path: path, end: make(chan struct{})}
			all.byPath[path] = mine
			all.mu.Unlock()
			return mine, nil
		}
		all.mu.Unlock()
		if err := c.AwaitEnd(ctx, busy.end); err != nil {
			return nil, err
		}
	}
}

// End lets the next call of Lead begin.
func (d *Lead) End() {
	all := leadsOf(d.client)
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.byPath, d.path)
	close(d.end)
}

// Leads reports whether the function of a call of Lead still runs with that grant,
// which may have been lost.
func Leads(c *session.Client, path string, g *hold.Grant) bool {
	all := leadsOf(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	turn := all.byPath[path]
	return turn != nil && turn.Grant.Load() == g
}

// CampaignWithRoom is like Campaign. As long as the session has no room for a candidate, it
// tries again, without a place in the line: others lead meanwhile.
func CampaignWithRoom(ctx context.Context, l *line.Line, k layout.Kind, value []byte) (*hold.Grant, error) {
	for logged := false; ; logged = true {
		g, err := Campaign(ctx, l, k, value)
		if !errors.Is(err, zkconn.ErrSessionFull) {
			return g, err
		}
		if !logged {
			l.Client.Log(slog.LevelWarn, "session is full; it does not campaign until there is room", "path", l.Path, "err", err)
		}
		if err := l.Client.PauseWhileFull(ctx); err != nil {
			return nil, err
		}
	}
}
