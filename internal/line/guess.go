package line

import (
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// In a long line a listing is large, so a place guesses its predecessor. Each join writes the name
// of its place into the line's data. They are read right before the join, on the same connection,
// and if nobody has joined in between, they name the place that joined last. It may have left by
// then, and what the data say may be wrong. So it is a guess until the znode of that name, with
// the number before the own one, is watched. Where there is none, the line is listed.

// Guess is the place that probably is a place's predecessor. nil: there is no guess.
type Guess struct {
	layout.PlaceName
	ahead int // how many places probably are ahead
}

// LongLine is the number of places above which a line is long.
const LongLine = 4

// veryLong is the multiple of LongLine above which a line is very long.
const veryLong = 16

// mayGuess reports whether it is worth reading the line's data: they are a marker, the last guess has
// not failed, and a place of that kind is blocked by the one that joined last, as far as is known. In a
// short line the predecessor has often left when it is watched. Before ZooKeeper 3.9 each hand-over lists
// the line anyway, so it is worth it in a very long one only.
func (l *Line) mayGuess(in *session.Session, s LineState, k layout.Kind) bool {
	if !in.TellsZxids() && !s.crowd.isLong(veryLong*settingsOf(l.Client).LongLine) {
		return false
	}
	return l.Blocks != nil && !s.crowd.failed && s.Version == -1 && (k.Exclusive() || l.Blocks(k, s.crowd.tail))
}

// guess returns the predecessor of the place that the join has made, nil if there is no guess.
func (e *JoinRequest) guess(p *Place) *Guess {
	if p.HasTurn {
		return nil
	}
	select {
	case <-e.before.Done():
	default: // cannot happen: replies arrive in order
		return nil
	}
	data, stat, err := e.before.Data()
	if err != nil || stat.Czxid != p.LineCzxid { // of a line that was there before this one
		return nil
	}
	// Each child that is created in the line takes the next number, so the place with the number before
	// the own one is right ahead.
	m, ok := p.Line.last(data, p.Number-1)
	if !ok || p.Number != nextNumber(stat) {
		return nil
	}
	p.Line.noteTail(m.Kind)
	if !p.Line.mayName(p.Kind, m) {
		return nil
	}
	return &Guess{m, max(1, p.LineCount-1-e.state.crowd.others)}
}

// last returns the name of the place that has joined last, as the line's data tell, if it has
// that number. The name may be invalid.
func (l *Line) last(data []byte, number int32) (m layout.PlaceName, ok bool) {
	mark, ok := layout.ParseMark(l.Recipe, data)
	if !ok || mark.Recipe != l.Recipe || mark.Name == "" || number < 0 {
		return layout.PlaceName{}, false
	}
	m, _ = layout.ParsePlace(fmt.Sprintf("%s%010d", mark.Name, number), l.Kinds)
	return m, true
}

// mayName reports whether m, from the line's data, is the name of a place of this library that
// blocks one of that kind.
func (l *Line) mayName(k layout.Kind, m layout.PlaceName) bool {
	return m.Kind != "" && m.Ours() && layout.IsUUID(m.UUID) && !l.Foreign(m.Kind) && l.Blocks(k, m.Kind)
}

// nextNumber returns the number that the next znode in a line with that Stat gets: of how many
// were created in it. The Stat has twice as many, and it may wrap: see DataNode.copyStat.
func nextNumber(line *zk.Stat) int32 { return int32(uint32(line.Cversion+line.NumChildren) / 2) }

// Others returns how many children of the line are not places, as far as the client knows.
func (l *Line) Others() int {
	state, _, _ := l.Known()
	if l.Delay > 0 {
		return state.crowd.others + 1 // HeldName
	}
	return state.crowd.others
}

// noteFailed remembers whether a guess is likely to fail.
func (l *Line) noteFailed(failed bool) { l.note(func(s *LineState) { s.crowd.failed = failed }) }

// noteTail remembers the kind of a place that joined right before one of this client.
func (l *Line) noteTail(k layout.Kind) { l.note(func(s *LineState) { s.crowd.tail = k }) }

// noteAhead notes which of the places ahead, of any kind, has joined last. The next guess
// depends on it.
func (p *Place) noteAhead(ahead []layout.PlaceName) {
	var last layout.PlaceName
	if len(ahead) > 0 {
		last = slices.MaxFunc(ahead, layout.PlaceName.Compare)
	}
	p.Line.noteTail(last.Kind)
	if last.Ours() && last.Number == p.Number-1 { // else a guess would fail again
		p.Line.noteFailed(false)
	}
}
