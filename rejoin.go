package zkrecipes

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// vanished tells that a place was deleted with its line, which is then to be
// joined again where the recipe says so, from the eviction of this place alone.
// Most tools delete a tree one znode after the other, the leaves first: so the
// line gets some time to go as well.
func (p *place) vanished(ctx context.Context) bool {
	if p == nil || !p.line.rejoins {
		return false
	}
	evicted := time.NewTimer(p.s.wire.Timeout() / 10)
	defer evicted.Stop()
	for {
		w, err := p.s.watch(ctx, p.line.abs())
		switch {
		case errors.Is(err, zk.ErrNoNode):
			p.line.forget()
			return true
		case err != nil:
			return errors.Is(err, errSessionOver)
		case p.token != 0 && Token(w.stat.Czxid) > p.token: // somebody else has made it anew
			return true
		}
		select {
		case <-w.done:
		case <-evicted.C:
			return false
		case <-p.s.over:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
