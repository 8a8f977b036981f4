package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTranscriptsCompareOnlyOrderAndEqualityOfZxids(t *testing.T) {
	transcript := func(a, b int64) []string {
		s := newScript(t, Server{})
		s.Note("czxid=%s mzxid=%s", s.zxid(a), s.zxid(b))
		return s.transcript()
	}
	require.Equal(t, []string{"czxid=z1 mzxid=z2"}, transcript(7, 10))
	require.Equal(t, transcript(7, 10), transcript(98, 100))
	require.NotEqual(t, transcript(7, 10), transcript(10, 7))
	require.NotEqual(t, transcript(7, 10), transcript(7, 7))
	require.NotEqual(t, transcript(7, 10), transcript(0, 10))
}
