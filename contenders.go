package zkrecipes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Contender is a place in a line, of a client of this library or of another one.
type Contender struct {
	Place    string    // the znode's name
	Identity string    // the znode's data; for this library's places, Options.Identity
	Session  int64     // ZooKeeper's session id
	Since    time.Time // when it joined the line, by the servers' clock
	Held     bool      // it holds the lock
	Reader   bool      // it shares the lock with other readers
	Token    Token     // its fencing token once it holds; a downgraded lease keeps its writer's
}

// contenders lists the line and then reads the places, several at a time.
func (l *line) contenders(ctx context.Context) ([]Contender, error) {
	for {
		s, err := l.c.live(ctx)
		if err != nil {
			return nil, err
		}
		cs, err := l.contendersIn(ctx, s)
		if !errors.Is(err, zkconn.ErrSessionOver) {
			return cs, err
		}
	}
}

func (l *line) contendersIn(ctx context.Context, s *session) ([]Contender, error) {
	children, _, err := s.Children(ctx, l.abs())
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ms := placeNames(children, l.kinds)
	slices.SortFunc(ms, placeName.compare)
	all := make([]Contender, len(ms))
	errs := make([]error, len(ms))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16) // requests at a time
	for i, m := range ms {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			data, stat, err := s.Get(ctx, l.abs()+"/"+m.name)
			all[i], errs[i] = Contender{Place: m.name, Reader: !m.kind.exclusive()}, err
			if err == nil {
				all[i].Identity, all[i].Session, all[i].Token = string(data), stat.EphemeralOwner, Token(stat.Czxid)
				all[i].Since = time.UnixMilli(stat.Ctime)
			}
		})
	}
	wg.Wait()
	var standing []placeName
	var cs []Contender
	for i, err := range errs {
		switch {
		case errors.Is(err, zk.ErrNoNode): // left in the meantime
			continue
		case err != nil && !errors.Is(err, zk.ErrNoAuth): // without the permission READ only the name is known
			return nil, err
		}
		all[i].Held = !slices.ContainsFunc(standing, func(m placeName) bool {
			return l.blocks(ms[i].kind, m.kind) && !ms[i].sharesWith(m)
		})
		standing, cs = append(standing, ms[i]), append(cs, all[i])
	}
	return cs, nil
}
