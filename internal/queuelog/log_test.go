package queuelog

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// What a Log knows of segments, which several callers change at once.

// B86: One caller finds that a segment is gone. Until it says so, another has listed the
// segments of the queue that was made again, which has one by the same number.
func TestSegmentThatIsGoneIsNotTakenForTheNewOneOfItsNumber(t *testing.T) {
	l := &Log{known: []segment{{number: 5, listed: 10}}}
	gone, _, ok := l.after(4)
	require.True(t, ok)
	l.forgetQueue()
	l.known = []segment{{number: 5, listed: 20}}
	l.drop(gone)
	require.Len(t, l.known, 1)
	seg, _, _ := l.after(4)
	l.drop(seg)
	require.Empty(t, l.known)
}

// B86: A segment is believed only if it was there when the segments were listed, or was
// created by the transaction that sealed the one before.
func TestSegmentsAreBelievedByTheirCzxid(t *testing.T) {
	l := &Log{born: 1, known: []segment{{number: 5, listed: 10}}}
	require.True(t, l.saw(5, &zk.Stat{Czxid: 10}))
	require.True(t, l.saw(5, &zk.Stat{Czxid: 10, Mzxid: 30, Version: 1}))
	require.True(t, l.saw(6, &zk.Stat{Czxid: 30}), "created when the one before was sealed")
	require.False(t, l.saw(7, &zk.Stat{Czxid: 40}), "nobody has listed it")
	require.Len(t, l.known, 2)
	require.False(t, l.saw(6, &zk.Stat{Czxid: 50}), "made again")
	require.Empty(t, l.known)

	l = &Log{born: 1, known: []segment{{number: 5, listed: 10}}}
	require.False(t, l.saw(5, &zk.Stat{Czxid: 11}), "created since it was listed")
	require.Empty(t, l.known)
	require.Zero(t, l.born)
}

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

// B86: A Scan of another caller has the segments listed again while a count is under way. The
// count does not leave out the segment that it was to count.
func TestCountBeginsAnewIfTheSegmentsWereForgottenMeanwhile(t *testing.T) {
	l := counting()
	l.forget()
	require.ErrorIs(t, l.countChanged(t.Context()), ErrStale)

	l = counting()
	l.forget()
	l.lists, l.known = 2, []segment{{number: 7}}
	require.ErrorIs(t, l.countChanged(t.Context()), ErrStale, "they were listed by then")
}

// B86: A segment that others have emptied is left out.
func TestCountGoesOnBesideASegmentThatIsGone(t *testing.T) {
	l := counting()
	l.drop(segment{number: 3})
	require.NoError(t, l.countChanged(t.Context()))
	require.Equal(t, 5, l.counter.total)
}
