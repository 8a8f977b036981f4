package fence_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
)

func TestParseReadsWhatFormatWrites(t *testing.T) {
	for value, tokens := range map[string]fence.Tokens{
		"/locks/orders 18253611008":              {"/locks/orders": 18253611008},
		"/workers/slots/0 7, /workers/slots/2 7": {"/workers/slots/0": 7, "/workers/slots/2": 7},
		"/a%2C%20b%252F%25%0D%0A/%C3%A4 1":       {"/a, b%2F%\r\n/ä": 1},
	} {
		got, err := fence.Format(tokens)
		require.NoError(t, err)
		require.Equal(t, value, got)
		parsed, err := fence.Parse(value)
		require.NoError(t, err)
		require.Equal(t, tokens, parsed)
	}
}

func TestParseRefusesWhatIsMalformed(t *testing.T) {
	for _, value := range []string{
		"", ",", "/a", "/a ", "/a b", "/a 1 2", "/a 1,", "/a 0", "/a -1", "/a 9223372036854775808", "/a%2 1",
		"/a 1, /a 2", " 1", "/" + strings.Repeat("x", 767) + " 1",
	} {
		_, err := fence.Parse(value)
		require.ErrorIs(t, err, fence.ErrMalformed, "%q", value)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("/locks/orders 18253611008, /a%2C 7")
	f.Fuzz(func(t *testing.T, value string) {
		tokens, err := fence.Parse(value)
		if err != nil {
			require.ErrorIs(t, err, fence.ErrMalformed)
			return
		}
		again, err := fence.Format(tokens)
		require.NoError(t, err)
		parsed, err := fence.Parse(again)
		require.NoError(t, err)
		require.Equal(t, tokens, parsed)
	})
}
