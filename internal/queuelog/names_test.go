package queuelog

import (
	"fmt"
	"math"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

const (
	idA = "AAAAAAAAAAAAAAAAAAAAAA"
	idB = "BBBBBBBBBBBBBBBBBBBBBB"
)

// So an ID can be an argument of zkr wherever one stands.
func TestNoIDBeginsLikeAFlag(t *testing.T) {
	for range 2000 {
		require.NotEqual(t, '-', rune(NewID()[0]))
	}
}

func TestEntriesAreTheItemsInOrder(t *testing.T) {
	for name, test := range map[string]struct {
		children []string
		want     []Entry
	}{
		"none": {nil, []Entry{}},
		"by number, not by id": {
			[]string{idA + "0000000010", idB + "0000000009"},
			[]Entry{{Name: idB + "0000000009", number: 9}, {Name: idA + "0000000010", number: 10}},
		},
		"by name where the counter stays at its end": {
			[]string{idB + "2147483647", idA + "2147483647"},
			[]Entry{{Name: idA + "2147483647", number: math.MaxInt32}, {Name: idB + "2147483647", number: math.MaxInt32}},
		},
		"negative behind the counter's end": {
			[]string{idA + "-2147483647", idB + "-2147483648", idB + "-2147483648.u", idB + "2147483647"},
			[]Entry{
				{Name: idB + "2147483647", number: math.MaxInt32},
				{Name: idB + "-2147483648", number: math.MaxInt32 + 1, Claimed: true, Flag: idB + "-2147483648.u"},
				{Name: idA + "-2147483647", number: math.MaxInt32 + 2},
			},
		},
		"with a note": {
			[]string{idA + "~-2147483648", idB + "~-2147483647.u", idB + "~-2147483647", idA + "~0000000001", idA + "-~000000001"},
			[]Entry{
				{Name: idA + "~0000000001", number: 1},
				{Name: idA + "~-2147483648", number: math.MaxInt32 + 1},
				{Name: idB + "~-2147483647", number: math.MaxInt32 + 2, Claimed: true, Flag: idB + "~-2147483647.u"},
			},
		},
		"a flag marks its own item": {
			[]string{idA + "0000000001.u", idA + "0000000001", idB + "0000000002"},
			[]Entry{{Name: idA + "0000000001", number: 1, Claimed: true, Flag: idA + "0000000001.u"}, {Name: idB + "0000000002", number: 2}},
		},
		"an item that is done is none": {
			[]string{idA + "0000000001", idA + "0000000001.done", idA + "0000000001.u", idB + "0000000002"},
			[]Entry{{Name: idB + "0000000002", number: 2}},
		},
		"a flag without an item": {[]string{idA + "0000000001.u"}, []Entry{}},
		"other names": {
			[]string{
				"", "x", idA, idA + "000000001", idA + "00000000001", idA + "00000000x1",
				idA + "+000000001", idA + "9999999999", idA + "0000000001-u",
			},
			[]Entry{},
		},
	} {
		require.Equal(t, test.want, Entries(test.children), name)
	}
}

func TestSegmentNumbersAreAscending(t *testing.T) {
	for name, test := range map[string]struct {
		names []string
		want  []int64
	}{
		"none":                {nil, nil},
		"ascending":           {[]string{"0000000010", "0000000009", "0000000000"}, []int64{0, 9, 10}},
		"beyond ten digits":   {[]string{"10000000000", "9999999999"}, []int64{9_999_999_999, 10_000_000_000}},
		"names of other form": {[]string{"", "x", "1", "00000000001", "-000000001", "+000000001", "0000000001x"}, nil},
	} {
		require.Equal(t, test.want, segmentNumbers(test.names), name)
	}
	for _, n := range []int64{0, 1, math.MaxInt32, 1 << 40} {
		require.Equal(t, []int64{n}, segmentNumbers([]string{segmentName(n)}))
	}
}

func TestCreatesCountsChildrenThatAreGone(t *testing.T) {
	for _, test := range []struct {
		created, deleted int64
	}{{0, 0}, {3, 0}, {3, 2}, {100, 100}, {1 << 30, 1<<30 - 5}, {1<<31 - 1, 1<<31 - 1}} {
		stat := &zk.Stat{Cversion: int32(uint32(test.created + test.deleted)), NumChildren: int32(test.created - test.deleted)}
		require.Equal(t, test.created, Creates(stat), fmt.Sprintf("%+v", test))
	}
}

func TestClaimsDoesNotCountForeignChildren(t *testing.T) {
	for _, test := range []struct {
		created, deleted int32
		claimed          bool
		claims           int
	}{
		{0, 0, false, 0},
		{1, 0, true, 1},
		{3, 2, true, 3},
		{3, 3, false, 3},
		{3, 0, true, 1},  // two are foreign
		{3, 1, false, 1}, // two are foreign
		{3, 1, true, 2},
		{2, 2, true, 2}, // the claim has ended since
	} {
		stat := &zk.Stat{Cversion: test.created + test.deleted, NumChildren: test.created - test.deleted}
		require.Equal(t, test.claims, Claims(stat, test.claimed), fmt.Sprintf("%+v", test))
	}
}

func TestIDsAndMarksStandInAPath(t *testing.T) {
	require.Regexp(t, `^[A-Za-z0-9_-]{22}$`, NewID())
	require.Len(t, NewID(), IDLength)
	require.Regexp(t, `^[A-Za-z0-9_-]{11}$`, NewMark())
	require.NotEqual(t, NewID(), NewID())
	require.NotEqual(t, NewMark(), NewMark())
}
