package zkrecipes

import (
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// How the last member to come opens its round by the transaction with which it joins. It
// looks who is there before it joins. The transaction checks each of the members by its
// name, this one's, too, so it fails as a whole if the look was stale. Then the member joins
// without it.

// maxRoll is the largest n for which a member looks before it joins: with more members, it is
// the events that cost the time.
const maxRoll = 32

// look holds two reads that were sent together. The first lists the round, the second reads
// the path. So if the members in the list still exist when the round is opened, what the
// second has read is the path in which that round stands.
type look struct {
	s           *session
	round, path *zkconn.Reading
}

// startLook returns nil where it has no use.
func (a *participant) startLook(s *session) *look {
	switch {
	case a.n == 1: // nobody else holds the round in place
		return nil
	case a.n > maxRoll, a.size() > jute.MaxFrame/2: // the transaction has to have room for a join
		return nil
	}
	round, path, err := s.StartChildrenAndGet(a.round.abs(), a.line.abs())
	if err != nil {
		return nil
	}
	return &look{s, round, path}
}

// callRoll returns the opening of the round with those who are there and the member that
// joins by that entry, or nil if that one is not the last to come. It belongs into the same
// transaction, behind the entry. An error means that there is no sense in joining.
func (a *participant) callRoll(l *look, member *entry) (*opening, error) {
	if l == nil {
		return nil, nil
	}
	o, join := a.newOpening(l.s), a.round.nameIn(member.create.Path) // meanwhile
	select {
	case <-l.round.Done():
	case <-a.ctx.Done():
		return nil, l.s.ContextErr(a.ctx)
	}
	names, round, err := l.round.Children()
	if err != nil || int(round.NumChildren) != a.n { // ready, and n-1 members
		return nil, nil
	}
	ms, number := a.countable(names), int32(queuelog.Creates(round))
	if len(ms) != a.n-1 || a.line.c.isBeyondLimit(number) {
		return nil, nil
	}
	// Joins and leaves write the round. A member that has left may have done so because the
	// round is open, and the others are about to.
	if joins := number - 1; round.Version != joins {
		return nil, nil
	}
	o.admit(append(ms, placeName{name: fmt.Sprintf("%s%010d", join, number), number: number}))
	<-l.path.Done() // which was sent right behind
	data, stat, err := l.path.Data()
	if err == nil {
		o.path.Version, err = a.agree(a.ctx, l.s, data, stat)
	}
	switch {
	case errors.Is(err, ErrSize):
		return nil, err
	case err != nil:
		return nil, nil
	}
	return o, nil
}
