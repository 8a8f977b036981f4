package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiffShowsChangedLinesWithContext(t *testing.T) {
	want := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
	require.Empty(t, Diff(want, want))
	require.Equal(t, "  ... (2 lines)\n  3\n  4\n  5\n- 6\n+ six\n  7\n  8\n",
		Diff(want, []string{"1", "2", "3", "4", "5", "six", "7", "8"}))
	require.Equal(t, "+ 0\n  1\n  2\n  3\n", Diff(want, append([]string{"0"}, want...)))
	require.Equal(t, "- 1\n", Diff(want[:1], nil))
}

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
