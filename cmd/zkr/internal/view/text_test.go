//go:build unix

package view

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDataControlsNeitherATerminalNorAPage(t *testing.T) {
	require.Equal(t, "two\nlines\twith ä\ufffd", Printable([]byte("two\nlines\twith ä\ufffd")))
	require.Equal(t, `\x1b[2J\a\u202e\u2066\u009b\xff`, Printable([]byte("\x1b[2J\a\u202e\u2066\u009b\xff")))
}
