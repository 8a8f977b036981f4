package zkrecipes

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/placename"
	"github.com/zkrecipes/zkrecipes/internal/semaphore"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// looks returns what carries out the calls that only look, for which n does not matter.
func (x *Semaphore) looks() recipe {
	slots := x.self()
	if slots == nil {
		return recipe{}
	}
	return recipe{Line: slots.Held}
}

// Size returns how many slots there are: the number that the path holds, whatever n this
// Semaphore was made for. It blocks until a server answers, which may lag behind a Resize.
// ErrUnused is returned if there is no semaphore, and ErrPathInUse if the path is another
// recipe's. A number that a barrier or somebody else has written looks the same. Cost: one
// request.
func (x *Semaphore) Size(ctx context.Context) (n int, err error) {
	err = x.looks().inSessions(ctx, "look at", func(ctx context.Context, s *session.Session, path string) error {
		data, stat, err := s.Get(ctx, path)
		if err != nil {
			return errs.Unused(err)
		}
		n, err = layout.SizeIn(x.slotted.Held.Recipe, "slots", data, stat)
		if err == nil && n == 0 {
			err = x.slotted.Held.CheckUnused(ctx, s)
		}
		return err
	})
	return n, err
}

// Contenders returns the holders, once for each slot, in the order of the slots, and then the
// waiters in the order of the line. How many slots a waiter wants is not known. Client.Evict
// takes a slot from its holder, whose lease is lost with all its slots.
//
// Contenders blocks until the servers answer, and returns the errors of Holders. Someone who
// enters meanwhile may be missing or be listed twice. Cost: two requests, one more if no slot
// was taken for a while, and one for each slot that is taken and each waiter.
func (x *Semaphore) Contenders(ctx context.Context) ([]Contender, error) {
	return x.looks().listContenders(ctx, x.contendersIn)
}

func (x *Semaphore) contendersIn(ctx context.Context, s *session.Session) ([]Contender, error) {
	waiters := x.slotted.Line
	below, _ := semaphore.SlotsOfLine(waiters.Path)
	slots := &line.Line{Client: waiters.Client, Path: below}
	// The line first: a waiter that takes slots leaves it by the same transaction.
	waiting, _, err := s.Children(ctx, waiters.Abs())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	children, _, err := s.Children(ctx, slots.Abs())
	if errors.Is(err, zk.ErrNoNode) {
		err = x.slotted.Held.CheckSized(ctx, s, "slots")
	}
	if err != nil {
		return nil, err
	}
	taken := semaphore.SlotsAmong(children)
	var ms []placename.Parts
	for _, name := range slices.SortedFunc(maps.Keys(taken), func(a, b string) int {
		return cmp.Or(cmp.Compare(taken[a], taken[b]), cmp.Compare(a, b))
	}) {
		ms = append(ms, placename.Parts{Name: name})
	}
	_, holders, err := readContenders(ctx, s, slots, ms)
	if err != nil {
		return nil, err
	}
	for i := range holders {
		holders[i].Held, holders[i].HeldSince = true, holders[i].Since
	}
	ms = placename.ParseAll(waiting, waiters.Kinds)
	slices.SortFunc(ms, placename.Parts.Compare)
	_, there, err := readContenders(ctx, s, waiters, ms)
	return append(holders, there...), err
}

// grantsLater reports whether nobody holds in the line with that path, because those that
// stand there take something else at their turn, by a transaction that deletes their places.
func grantsLater(ctx context.Context, s *session.Session, dir string) (bool, error) {
	data, _, err := s.Get(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
		return false, nil
	}
	m, _ := layout.ParseMark("", data)
	return m.Recipe == "semaphore" || m.Recipe == "queue", err
}
