package queuelog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// counting returns a Log that has counted two segments, of 90 items and of 5, where the
// first one has changed since.
func counting() *Log {
	children := func(n int) (names []string) {
		for range n {
			names = append(names, NewID()+"0000000001")
		}
		return names
	}
	c := newCounter()
	c.update(1)
	first, last := &zkconn.Watch{Children: children(90)}, &zkconn.Watch{Children: children(5)}
	first.Stat.Version = 1
	c.add(3, first)
	c.add(7, last)
	// What update does for a watch that has fired.
	delete(c.items, first)
	delete(c.counted, 3)
	c.total -= 90
	c.changed = append(c.changed, 3)
	return &Log{counter: c, lists: 1, known: []segment{{number: 3}, {number: 7}}}
}

// A Scan of another caller has the segments listed again while a count is under way. The
// count does not leave out the segment that it was to count.
func TestB86CountBeginsAnewIfTheSegmentsWereForgottenMeanwhile(t *testing.T) {
	l := counting()
	l.forget()
	require.ErrorIs(t, l.countChanged(t.Context()), ErrStale)

	l = counting()
	l.forget()
	l.lists, l.known = 2, []segment{{number: 7}}
	require.ErrorIs(t, l.countChanged(t.Context()), ErrStale, "they were listed by then")
}

// A segment that others have emptied is left out.
func TestB86CountGoesOnBesideASegmentThatIsGone(t *testing.T) {
	l := counting()
	l.drop(segment{number: 3})
	require.NoError(t, l.countChanged(t.Context()))
	require.Equal(t, 5, l.counter.total)
}
