package zkconn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// appendNames encodes a vector of names, with any length in front.
func appendNames(n int32, names ...string) []byte {
	b := jute.AppendInt32(nil, n)
	for _, name := range names {
		b = jute.AppendString(b, name)
	}
	return b
}

func TestDecodeNames(t *testing.T) {
	for name, test := range map[string]struct {
		record []byte
		want   []string
	}{
		"none":  {appendNames(0), []string{}},
		"names": {appendNames(3, "a", "", "ünï"), []string{"a", "", "ünï"}},
	} {
		d := jute.NewDecoder(append(test.record, 42))
		require.Equal(t, test.want, decodeNames(d), name)
		require.NoError(t, d.Err, name)
		require.Equal(t, 1, d.Len(), "%s: what follows is left", name)
	}
}

func TestDecodeNamesFailsWhereNamesAreMissing(t *testing.T) {
	for _, record := range [][]byte{
		appendNames(2, "a"), appendNames(1<<31-1, "a"), appendNames(1)[:3], append(appendNames(1), 0, 0, 0, 9, 'x'),
		appendNames(-1), appendNames(-2), appendNames(-1 << 31), append(appendNames(1), 0xff, 0xff, 0xff, 0xff),
	} {
		d := jute.NewDecoder(record)
		require.Empty(t, decodeNames(d), "%x", record)
		require.Error(t, d.Err, "%x", record)
	}
}

// Whatever a server sends is decoded to as many names as were counted or to an error,
// and there are never more than the bytes allow.
func FuzzDecodeNames(f *testing.F) {
	f.Add(appendNames(2, "a", "b"))
	f.Add(appendNames(1<<31-1, "a"))
	f.Add(appendNames(-2, "a"))
	f.Add(append(appendNames(1), 0x7f, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, record []byte) {
		d, count := jute.NewDecoder(record), jute.NewDecoder(record).Int32()
		names := decodeNames(d)
		if d.Err == nil && len(names) != int(count) {
			t.Fatalf("%d names of %d", len(names), count)
		}
		if cap(names) > len(record)/4 {
			t.Fatalf("room for %d names in %d bytes", cap(names), len(record))
		}
	})
}

func TestAWatchFiresBeforeItsEventIsPassedOn(t *testing.T) {
	key := watchKey{"/a", ofData}
	w := &Watch{key: key, firing: newFiring()}
	passed := false
	s := &Session{watches: map[watchKey]*Watch{key: w}, account: newAccount(jute.MaxFrame, func(string) {})}
	s.cfg.Event = func(wire.Event) {
		passed = true
		require.True(t, w.HasFired())
	}
	s.onEvent(wire.Event{Path: key.path, Type: jute.EventDeleted})
	require.True(t, passed)
}

// Only where a watch was answered is it known that the znode stood and that no other event belongs
// to it.
func TestPredecessorIsNotReleasedByAnEventBeforeTheAnswers(t *testing.T) {
	for _, answered := range []bool{false, true} {
		w := &PredecessorWatch{path: "/a", conn: 1, answered: answered, firing: newFiring()}
		s := &Session{predecessors: map[string]*PredecessorWatch{w.path: w}}
		s.notePredecessor(wire.Event{Path: w.path, Conn: 1, Type: jute.EventDataChanged, Zxid: 7})
		w.answered = true
		s.notePredecessor(wire.Event{Path: w.path, Conn: 1, Type: jute.EventDeleted, Zxid: 7})
		require.True(t, w.HasFired())
		require.Equal(t, answered, w.IsReleased())
	}
}
