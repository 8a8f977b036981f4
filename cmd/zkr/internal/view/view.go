//go:build unix

// Package view reads who holds and who waits, in one line or in all of them.
package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
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
	Done   *Done            `json:"done,omitempty"`   // of a job
	Len    int              `json:"len,omitempty"`    // items of a queue
	Idle   int              `json:"idle,omitempty"`   // consumers of a queue that wait for an item
	Places []Place          `json:"places"`
}

// Done is the record of a job of zkr job: the last period that is done.
type Done struct {
	Period   time.Time       `json:"period"` // when it began
	Token    zkrecipes.Token `json:"token"`
	Identity string          `json:"identity"`
	Ended    time.Time       `json:"ended"` // by the clock of the machine that did it
}

// Says returns the value of a counter or of a leader, or which period of a job was done last, or "".
func (l Line) Says() string {
	switch {
	case l.Value != nil:
		return fmt.Sprintf("value %d", *l.Value)
	case l.Leads != nil:
		return "value of the leader: " + Brief(*l.Leads)
	case l.Done != nil:
		return fmt.Sprintf("last done: the period of %s, at %s by %s", l.Done.Period.UTC().Format(time.RFC3339),
			l.Done.Ended.UTC().Format(time.RFC3339), Brief(l.Done.Identity))
	}
	return ""
}

// Does says what a place does there.
func (l Line) Does(p Place) string {
	switch {
	case l.Recipe == zkrecipes.RecipeGroup, l.Recipe == zkrecipes.RecipeShards:
		return "member"
	case p.Held:
		return "holds"
	}
	return "waits"
}

// CheckEvict returns why nobody can be evicted from the line, if that is so.
func (l Line) CheckEvict() error {
	switch l.Recipe {
	case zkrecipes.RecipeQueue:
		return errors.New("an item cannot be taken from its consumer: end the consumer's process, or bury the item")
	case zkrecipes.RecipeGroup, zkrecipes.RecipeShards:
		return errors.New("a member of a group would be back at once: end its process")
	case zkrecipes.RecipeCounter:
		return errors.New("a Client's turn at a counter lasts for one call: nothing is stuck there")
	}
	return nil
}

// ReadPath returns the line at the path, whatever the recipe. A path of zkr job stands for its
// lock, and one with other data and ephemeral znodes below for a group. ReadPath returns ErrUnused if there is
// none of them.
func ReadPath(ctx context.Context, client *zkrecipes.Client, path string) (Line, error) {
	u, err := Find(ctx, client, path)
	switch {
	case err == nil:
		return Read(ctx, client, u)
	case !errors.Is(err, zkrecipes.ErrUnused):
		return Line{}, err
	}
	l, failed := Read(ctx, client, zkrecipes.Usage{Path: path, Recipe: zkrecipes.RecipeGroup})
	if failed != nil || len(l.Places) > 0 {
		return l, failed
	}
	if job, failed := lastDone(ctx, client, path+"/lock"); failed == nil && job != nil {
		return Read(ctx, client, zkrecipes.Usage{Path: path + "/lock", Recipe: zkrecipes.RecipeMutex})
	}
	return Line{}, err
}

// lastDone returns the record of the job that has this lock, or nil if there is none.
func lastDone(ctx context.Context, client *zkrecipes.Client, lock string) (*Done, error) {
	if path.Base(lock) != "lock" {
		return nil, nil
	}
	data, _, err := client.Get(ctx, path.Join(path.Dir(lock), "done"))
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	var d Done
	if err != nil || json.Unmarshal(data, &d) != nil {
		return nil, err
	}
	return &d, nil
}

// ephemerals returns the ephemeral children of the znode: those without a sequence number by name, then
// the others by number.
func ephemerals(ctx context.Context, client *zkrecipes.Client, dir string, held bool) ([]Place, error) {
	places := []Place{}
	names, _, err := client.Children(ctx, dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	for _, name := range names {
		p := Place{Name: name, Path: path.Join(dir, name), Held: held}
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
	slices.SortFunc(places, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Number(), b.Number()), strings.Compare(a.Name, b.Name))
	})
	return places, nil
}

// Number returns the sequence number with which the place's name ends, or -1.
func (p Place) Number() int64 {
	digits := p.Name[max(0, len(p.Name)-10):]
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && len(digits) == 10 {
		return max(n, -1)
	}
	return -1
}

// Find returns the recipe that uses the path. It returns ErrUnused if there is none.
func Find(ctx context.Context, client *zkrecipes.Client, path string) (zkrecipes.Usage, error) {
	for u, err := range client.Recipes(ctx, path, &zkrecipes.RecipesOptions{Depth: 1}) {
		if u.Path != path { // the path itself comes first
			break
		}
		return u, err
	}
	return zkrecipes.Usage{}, &zkrecipes.Error{Op: "look at", Path: path, Err: zkrecipes.ErrUnused}
}

// ReadValue returns the line that the usage is about, without its places.
func ReadValue(ctx context.Context, client *zkrecipes.Client, u zkrecipes.Usage) (l Line, err error) {
	l = Line{Path: u.Path, Recipe: u.Recipe, Size: u.Size, Len: u.Len, Places: []Place{}}
	switch u.Recipe {
	case zkrecipes.RecipeQueue:
		l.Idle = u.Waiters
	case zkrecipes.RecipeCounter:
		var value int64
		value, err = zkrecipes.NewCounter(client, u.Path).Get(ctx)
		l.Value = &value
	case zkrecipes.RecipeMutex:
		l.Done, err = lastDone(ctx, client, u.Path)
	case zkrecipes.RecipeElection:
		var leader zkrecipes.Leader
		leader, err = zkrecipes.NewElection(client, u.Path).Leader(ctx)
		if errors.Is(err, zkrecipes.ErrNoLeader) {
			return l, nil
		}
		value := string(leader.Value)
		l.Leads = &value
	}
	return l, err
}

// Read returns the line that the usage is about.
func Read(ctx context.Context, client *zkrecipes.Client, u zkrecipes.Usage) (Line, error) {
	l, err := ReadValue(ctx, client, u)
	if err != nil {
		return l, err
	}
	switch u.Recipe {
	case zkrecipes.RecipeGroup:
		l.Places, err = ephemerals(ctx, client, u.Path, true)
		return l, err
	case zkrecipes.RecipeShards: // each place is a process, with what it says of its shards
		l.Places, err = ephemerals(ctx, client, path.Join(u.Path, "members"), true)
		for i, p := range l.Places {
			l.Places[i].Name, l.Places[i].Identity = p.Identity, p.Name
		}
		return l, err
	case zkrecipes.RecipeCounter:
		l.Places, err = ephemerals(ctx, client, path.Join(u.Path, "line"), false)
		return l, err
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

// Held returns how many places hold.
func (l Line) Held() (n int) {
	for _, p := range l.Places {
		if p.Held {
			n++
		}
	}
	return n
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
