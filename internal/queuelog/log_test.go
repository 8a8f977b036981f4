package queuelog

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// What a Log knows of segments, which several callers change at once.

// One caller finds that a segment is gone. Until it says so, another has listed the
// segments of the queue that was made again, which has one by the same number.
func TestSegmentThatIsGoneIsNotTakenForTheNewOneOfItsNumber(t *testing.T) {
	l := &Log{known: []segment{{number: 5, listed: 10}}}
	require.True(t, l.saw(5, &zk.Stat{Czxid: 10}))
	l.forget()
	l.known = []segment{{number: 5, listed: 20}}
	require.True(t, l.saw(5, &zk.Stat{Czxid: 20}))
	l.drop(5, 10)
	require.Len(t, l.known, 1)
	l.drop(5, 20)
	require.Empty(t, l.known)
}

// A segment is believed only if it was there when the segments were listed, or was
// created by the transaction that sealed the one before.
func TestSegmentsAreBelievedByTheirCzxid(t *testing.T) {
	l := &Log{checked: true, known: []segment{{number: 5, listed: 10}}}
	require.True(t, l.saw(5, &zk.Stat{Czxid: 10}))
	require.True(t, l.saw(5, &zk.Stat{Czxid: 10, Mzxid: 30, Version: 1}))
	require.True(t, l.saw(6, &zk.Stat{Czxid: 30}), "created when the one before was sealed")
	require.False(t, l.saw(7, &zk.Stat{Czxid: 40}), "nobody has listed it")
	require.Len(t, l.known, 2)
	require.False(t, l.saw(6, &zk.Stat{Czxid: 50}), "made again")
	require.Empty(t, l.known)

	l = &Log{checked: true, known: []segment{{number: 5, listed: 10}}}
	require.False(t, l.saw(5, &zk.Stat{Czxid: 11}), "created since it was listed")
	require.Empty(t, l.known)
	require.False(t, l.checked)
}
