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

// rollCall is what a participant that probably is the last to come knows before it joins.
type rollCall struct {
	others  []placeName // n-1 members
	number  int32       // of the next member to come
	version int32       // in which the path holds n
}

// maxRoll bounds the number of members of a barrier that calls the roll: with many, it is
// the events that cost the time.
const maxRoll = 32

// look is two reads under way, in one round trip: of the path, and of who is in the round.
type look struct{ path, round *zkconn.Reading }

// startLook sends them, or returns nil where the roll is not called.
func (a *participant) startLook(s *session) *look {
	switch {
	case a.n == 1: // nobody else holds the round in place
		return nil
	case a.n > maxRoll, a.size() > jute.MaxFrame/2: // the transaction has to have room for a join
		return nil
	}
	path, round, err := s.StartGetAndChildren(a.line.abs(), a.round.abs())
	if err != nil {
		return nil
	}
	return &look{path, round}
}

// callRoll returns nil if a member that joins now is not the last to come. It returns an
// error if there is no sense in joining.
func (a *participant) callRoll(s *session, l *look) (*rollCall, error) {
	if l == nil {
		return nil, nil
	}
	select {
	case <-l.round.Done():
	case <-a.ctx.Done():
		return nil, s.ContextErr(a.ctx)
	}
	names, round, err := l.round.Children()
	if err != nil || int(round.NumChildren) != a.n { // ready, and n-1 members
		return nil, nil
	}
	<-l.path.Done() // which was sent first
	data, stat, err := l.path.Data()
	if err != nil || stat.Pzxid < round.Czxid { // else the path was read when the round stood already
		return nil, nil
	}
	roll := &rollCall{others: a.countable(names), number: int32(queuelog.Creates(round))}
	if len(roll.others) != a.n-1 || a.line.c.isBeyondLimit(roll.number) {
		return nil, nil
	}
	// Joins and leaves write the round. A member that has left may have done so because the
	// round is open, and the others are about to.
	if joins := roll.number - 1; round.Version != joins {
		return nil, nil
	}
	roll.version, err = a.agree(a.ctx, s, data, stat)
	switch {
	case errors.Is(err, ErrSize):
		return nil, err
	case err != nil:
		return nil, nil
	}
	return roll, nil
}

// opening returns the opening of the round with those of the roll and the member that joins
// by that entry, or nil for a nil roll. It belongs into the same transaction, behind the
// entry.
func (roll *rollCall) opening(a *participant, member *entry) *opening {
	if roll == nil {
		return nil
	}
	name := fmt.Sprintf("%s%010d", a.round.nameIn(member.create.Path), roll.number)
	return a.newOpening(append(roll.others, placeName{name: name, number: roll.number}), roll.version)
}
