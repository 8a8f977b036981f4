//go:build unix

// Package view reads who holds and who waits, in one line or in all of them.
package view

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// Session is a session id, which is written as ZooKeeper's tools do.
type Session int64

func (s Session) String() string { return fmt.Sprintf("%#x", uint64(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s Session) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Place is somebody who holds or waits.
type Place struct {
	Name     string          `json:"place"`
	Path     string          `json:"path"`
	Identity string          `json:"identity"`
	Session  Session         `json:"session"`
	Since    time.Time       `json:"since"` // when it joined
	Held     bool            `json:"held"`
	Shared   bool            `json:"shared,omitempty"`
	Token    zkrecipes.Token `json:"token,omitempty"`

	Contender zkrecipes.Contender `json:"-"`
}

// Line is a recipe at a path, and those who use it: holders first.
type Line struct {
	Path   string           `json:"path"`
	Recipe zkrecipes.Recipe `json:"recipe"`
	Size   int              `json:"size,omitempty"`   // slots of a semaphore, members of a barrier, shards
	Value  *int64           `json:"value,omitempty"`  // of a counter
	Leads  *string          `json:"leader,omitempty"` // the value of an election's leader
	Len    int              `json:"len,omitempty"`    // items of a queue
	Places []Place          `json:"places"`
}

// RecipeGroup is a Group, or another path below which ephemeral znodes stand. Nothing else marks
// a group, so it is found only by its path.
const RecipeGroup zkrecipes.Recipe = "group"

// ReadPath returns the line at the path, whatever the recipe. It returns ErrUnused if there is
// none.
func ReadPath(ctx context.Context, client *zkrecipes.Client, path string) (Line, error) {
	u, err := Find(ctx, client, path)
	if !errors.Is(err, zkrecipes.ErrUnused) {
		if err != nil {
			return Line{}, err
		}
		return Read(ctx, client, u)
	}
	l := Line{Path: path, Recipe: RecipeGroup}
	var failed error
	if l.Places, failed = ephemerals(ctx, client, path); failed != nil {
		return Line{}, failed
	}
	if len(l.Places) == 0 {
		return Line{}, err
	}
	for i := range l.Places {
		l.Places[i].Held = true
	}
	return l, nil
}

// ephemerals returns the ephemeral children of the znode, in the order of their sequence numbers
// if all have some, and else of their names.
func ephemerals(ctx context.Context, client *zkrecipes.Client, dir string) ([]Place, error) {
	places := []Place{}
	names, _, err := client.Children(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return places, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p := Place{Name: name, Path: strings.TrimSuffix(dir, "/") + "/" + name}
		data, stat, err := client.Get(ctx, p.Path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue // it has left
		case err != nil:
			return nil, err
		case stat.EphemeralOwner == 0:
			continue
		}
		p.Identity, p.Session, p.Since = string(data), Session(stat.EphemeralOwner), time.UnixMilli(stat.Ctime).UTC()
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b Place) int { return strings.Compare(a.order(), b.order()) })
	return places, nil
}

// order returns by what a place is sorted: its sequence number, or its name if it has none.
func (p Place) order() string {
	digits := p.Name[max(0, len(p.Name)-10):]
	if len(digits) == 10 && strings.Trim(digits, "0123456789") == "" {
		return digits
	}
	return p.Name
}

// Find returns the recipe that uses the path. It returns ErrUnused if there is none.
func Find(ctx context.Context, client *zkrecipes.Client, path string) (zkrecipes.Usage, error) {
	for u, err := range client.Recipes(ctx, path, &zkrecipes.RecipesOptions{Depth: 1}) {
		switch {
		case IsSkipped(err) && u.Path != path:
		case err != nil:
			return u, err
		case u.Path == path:
			return u, nil
		}
	}
	return zkrecipes.Usage{}, &zkrecipes.Error{Op: "look at", Path: path, Err: zkrecipes.ErrUnused}
}

// Read returns the line that the usage is about.
func Read(ctx context.Context, client *zkrecipes.Client, u zkrecipes.Usage) (Line, error) {
	l := Line{Path: u.Path, Recipe: u.Recipe, Size: u.Size, Len: u.Len, Places: []Place{}}
	if u.Recipe == zkrecipes.RecipeCounter {
		value, err := zkrecipes.NewCounter(client, u.Path).Get(ctx)
		if err == nil {
			l.Value = &value
			l.Places, err = ephemerals(ctx, client, strings.TrimSuffix(u.Path, "/")+"/line")
		}
		return l, err
	}
	if u.Recipe == zkrecipes.RecipeShards {
		return l, l.owners(ctx, client)
	}
	if u.Recipe == zkrecipes.RecipeElection {
		leader, err := zkrecipes.NewElection(client, u.Path).Leader(ctx)
		if err != nil && !errors.Is(err, zkrecipes.ErrNoLeader) {
			return l, err
		}
		if err == nil {
			value := string(leader.Value)
			l.Leads = &value
		}
	}
	cs, err := contenders(ctx, client, u)
	for _, c := range cs {
		l.Places = append(l.Places, Place{
			Name: c.Place, Path: c.Path, Identity: c.Identity, Session: Session(c.Session),
			Since: c.Since.UTC(), Held: c.Held, Shared: c.Reader, Token: c.Token, Contender: c,
		})
	}
	return l, err
}

// owners reads who has which shards. Each place is a process, with what it says of its shards.
func (l *Line) owners(ctx context.Context, client *zkrecipes.Client) (err error) {
	l.Places, err = ephemerals(ctx, client, strings.TrimSuffix(l.Path, "/")+"/members")
	for i, p := range l.Places {
		l.Places[i].Name, l.Places[i].Identity, l.Places[i].Held = p.Identity, p.Name, true
	}
	return err
}

// contenders lists those who hold or wait. A gate has none that one can see.
func contenders(ctx context.Context, client *zkrecipes.Client, u zkrecipes.Usage) ([]zkrecipes.Contender, error) {
	switch u.Recipe {
	case zkrecipes.RecipeMutex:
		return zkrecipes.NewMutex(client, u.Path).Contenders(ctx)
	case zkrecipes.RecipeRWLock:
		return zkrecipes.NewRWLock(client, u.Path).Contenders(ctx)
	case zkrecipes.RecipeElection:
		return zkrecipes.NewElection(client, u.Path).Contenders(ctx)
	case zkrecipes.RecipeSemaphore:
		return zkrecipes.NewSemaphore(client, u.Path, max(1, u.Size)).Contenders(ctx)
	case zkrecipes.RecipeBarrier:
		return zkrecipes.NewBarrier(client, u.Path, max(1, u.Size)).Contenders(ctx)
	case zkrecipes.RecipeDoubleBarrier:
		return zkrecipes.NewDoubleBarrier(client, u.Path, max(1, u.Size)).Contenders(ctx)
	case zkrecipes.RecipeQueue:
		return consumers(ctx, client, u.Path)
	}
	return nil, nil
}

// consumers returns those who have items of a queue. Their place is the item's ID. They cannot
// be evicted.
func consumers(ctx context.Context, client *zkrecipes.Client, path string) (cs []zkrecipes.Contender, err error) {
	for e, err := range zkrecipes.NewQueue(client, path, nil).Items(ctx) {
		if err != nil {
			return cs, err
		}
		if e.Taken {
			cs = append(cs, zkrecipes.Contender{
				Place: string(e.ID), Identity: e.Consumer, Session: e.Session, Since: e.TakenSince, Held: true,
			})
		}
	}
	return cs, nil
}

// Lines yields the lines below root in which somebody holds or waits. Errors that come with
// the path of a znode that was skipped do not end it.
func Lines(ctx context.Context, client *zkrecipes.Client, root string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for u, err := range client.Recipes(ctx, root, nil) {
			l := Line{Path: u.Path, Recipe: u.Recipe}
			if err == nil && u.Holders+u.Waiters > 0 {
				l, err = Read(ctx, client, u)
				if errors.Is(err, zkrecipes.ErrUnused) || errors.Is(err, zkrecipes.ErrPathInUse) {
					err = nil // it was deleted meanwhile, and perhaps made again
				}
			}
			if (err != nil || len(l.Places) > 0) && !yield(l, err) {
				return
			}
		}
	}
}

// Holders returns the sessions that hold, each once.
func (l Line) Holders() (sessions []Session) {
	for _, p := range l.Places {
		if p.Held && !slices.Contains(sessions, p.Session) {
			sessions = append(sessions, p.Session)
		}
	}
	return sessions
}

// IsSkipped reports whether the error is about one znode, at which Client.Recipes goes on.
func IsSkipped(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zkrecipes.ErrLeftOut) || errors.Is(err, zkrecipes.ErrPathInUse)
}
