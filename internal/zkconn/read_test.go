package zkconn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
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
		"none":        {appendNames(0), []string{}},
		"null vector": {appendNames(-1), []string{}},
		"names":       {appendNames(3, "a", "", "ünï"), []string{"a", "", "ünï"}},
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
	} {
		d := jute.NewDecoder(record)
		require.Empty(t, decodeNames(d), "%x", record)
		require.Error(t, d.Err, "%x", record)
	}
}

func TestDecodeStatReadsEveryField(t *testing.T) {
	d := jute.NewDecoder(appendStat(nil, &sampleStat))
	require.Equal(t, &sampleStat, decodeStat(d))
	require.NoError(t, d.Err)
	require.Zero(t, d.Len())
}
