package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTranscriptsCompareOnlyOrderAndEqualityOfZxids(t *testing.T) {
	transcript := func(root string, a, b int64) []string {
		s := newScript(t, Server{})
		s.root = root
		s.Note("%s czxid=%s mzxid=%s", s.Path("n"), s.zxid(a), s.zxid(b))
		return s.transcript()
	}
	require.Equal(t, []string{"~/n czxid=z1 mzxid=z2"}, transcript("/root1", 7, 10))
	require.Equal(t, transcript("/root1", 7, 10), transcript("/root2", 98, 100))
	require.NotEqual(t, transcript("/root1", 7, 10), transcript("/root1", 10, 7))
	require.NotEqual(t, transcript("/root1", 7, 10), transcript("/root1", 7, 7))
	require.NotEqual(t, transcript("/root1", 7, 10), transcript("/root1", 0, 10))
}
