package group

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/watch"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Pause is between an event and the reads that follow it. What changes meanwhile costs no
// listing of its own: a thousand members that come one by one cost each watcher one listing
// in a Pause at most.
const Pause = 100 * time.Millisecond

// Present is a member that is there.
type Present struct {
	ID   string
	Data []byte
	Stat zk.Stat // zero: the Client may not read the znode
}

// List returns the members, in the order of their ids.
func List(ctx context.Context, s *session.Session, dir string) ([]Present, error) {
	if err := s.Sync(ctx, dir); err != nil {
		return nil, err
	}
	names, _, err := s.Children(ctx, dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	all, errs := make([]Present, len(names)), make([]error, len(names))
	zkconn.AtATime(len(names), func(i int) {
		data, stat, err := s.Get(ctx, dir+"/"+names[i])
		all[i].ID = strings.Clone(names[i])
		switch {
		case err == nil:
			all[i].Data, all[i].Stat = data, *stat
		case !errors.Is(err, zk.ErrNoAuth):
			errs[i] = err
		}
	})
	present := all[:0]
	for i, err := range errs {
		switch {
		case err == nil:
			present = append(present, all[i])
		case !errors.Is(err, zk.ErrNoNode): // else it has left
			return nil, err
		}
	}
	slices.SortFunc(present, byID)
	return present, nil
}

func byID(a, b Present) int { return strings.Compare(a.ID, b.ID) }

// View follows the members of a group.
type View struct {
	Tell func([]Present) error // an error ends Follow

	list    watch.Follower
	members map[string]*sighting
	// news: the members are not as they were told, or nothing was told yet.
	news bool
}

// sighting is what was seen of a member.
type sighting struct {
	Present
	// w is on its data, of this session, nil if it may not be read.
	w       *zkconn.Watch
	read    bool
	history int64 // of the session then
}

// NewView returns a View of the group at the absolute path dir.
func NewView(dir string, tell func([]Present) error) *View {
	return &View{Tell: tell, list: watch.Follower{Path: dir, Children: true}, members: map[string]*sighting{}, news: true}
}

// Follow tells who is there, and again after each change, until the session ends, and returns
// ErrSessionOver then. Call it with one session after the other.
func (v *View) Follow(ctx context.Context, s *session.Session) error {
	if err := v.list.Begin(ctx, s.Session); err != nil {
		return err
	}
	for _, m := range v.members {
		m.w, m.read = nil, false
	}
	events := make(chan struct{}, 1)
	defer v.stopNotify(events)
	for {
		now, _, w, err := v.list.Next(ctx, s.Session)
		if err != nil {
			return err
		}
		if err := v.read(ctx, s, now.Children, events); err != nil {
			return err
		}
		if v.news {
			v.news = false
			if err := v.Tell(v.present()); err != nil {
				return err
			}
		}
		if err := await(ctx, s, w, events); err != nil {
			return err
		}
	}
}

// await waits for an event, and a Pause longer.
func await(ctx context.Context, s *session.Session, w *zkconn.Watch, events <-chan struct{}) error {
	select {
	case <-w.Fired():
	case <-events:
	case <-s.Over():
		return zkconn.ErrSessionOver
	case <-ctx.Done():
		return s.ContextErr(ctx)
	}
	return zkconn.Until(ctx, s.Session, time.After(Pause))
}

// stopNotify ends the notifications of a session. Its watches are shared, and stay.
func (v *View) stopNotify(events chan<- struct{}) {
	for _, m := range v.members {
		if m.w != nil {
			m.w.StopNotify(events)
		}
	}
}

// read reads the members that are new or whose watch has fired, all at once.
func (v *View) read(ctx context.Context, s *session.Session, names []string, events chan<- struct{}) error {
	there := make(map[string]bool, len(names))
	started := map[string]*zkconn.Watch{}
	for _, name := range names {
		there[name] = true
		if m := v.members[name]; m == nil || !m.read || m.w != nil && m.w.HasFired() {
			started[name] = s.StartWatch(v.list.Path + "/" + name)
		}
	}
	for name := range v.members {
		if !there[name] {
			v.left(name)
		}
	}
	for name, w := range started {
		w, err := s.Await(ctx, w)
		switch {
		case err == nil:
			v.saw(name, w, s.History())
			w.Notify(events)
		case errors.Is(err, zk.ErrNoAuth):
			v.mayNotRead(name)
		case errors.Is(err, zk.ErrNoNode):
			v.left(name) // since the listing, whose watch has fired
		default:
			return err
		}
	}
	return nil
}

// saw notes a member, unless what was seen before is newer: a server may lag. In a new history,
// the servers may have lost what was seen.
func (v *View) saw(name string, w *zkconn.Watch, history int64) {
	last := v.members[name]
	if last != nil && (last.Stat.Mzxid == w.Stat.Mzxid || last.Stat.Mzxid > w.Stat.Mzxid && last.history == history) {
		last.w, last.read, last.history = w, true, history
		return
	}
	name = strings.Clone(name) // which would keep the whole listing
	v.members[name] = &sighting{Present{name, w.Data, w.Stat}, w, true, history}
	v.news = true
}

// mayNotRead notes a member of which nothing but its id can be seen.
func (v *View) mayNotRead(name string) {
	if last := v.members[name]; last == nil || last.Stat != (zk.Stat{}) {
		v.news = true
	}
	name = strings.Clone(name)
	v.members[name] = &sighting{Present: Present{ID: name}, read: true}
}

// left notes that a member is there no more.
func (v *View) left(name string) {
	if m := v.members[name]; m != nil {
		delete(v.members, name)
		v.news = true
	}
}

// present returns the members, in the order of their ids.
func (v *View) present() []Present {
	all := make([]Present, 0, len(v.members))
	for _, m := range v.members {
		all = append(all, m.Present)
	}
	slices.SortFunc(all, byID)
	return all
}
