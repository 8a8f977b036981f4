package jute

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecoderReadsWhatAppendWrote(t *testing.T) {
	b := AppendInt32(nil, -7)
	b = AppendInt64(b, 1<<40)
	b = AppendString(b, "/locks/ä")
	b = AppendBuffer(b, []byte{1, 2})
	b = AppendInt32(b, -1) // a null buffer
	b = append(b, 1)
	b = AppendInt32(b, 2)
	b = AppendString(AppendString(b, "a"), "b")

	d := NewDecoder(b)
	require.Equal(t, int32(-7), d.Int32())
	require.Equal(t, int64(1<<40), d.Int64())
	require.Equal(t, "/locks/ä", d.String())
	require.Equal(t, []byte{1, 2}, d.Buffer())
	require.Nil(t, d.Buffer())
	require.True(t, d.Bool())
	require.Equal(t, []string{"a", "b"}, d.Strings())
	require.NoError(t, d.Err)
	require.Zero(t, d.Int32())
	require.ErrorIs(t, d.Err, ErrShort)
}

func TestDecoderRejectsLengthsBeyondTheRecord(t *testing.T) {
	for _, n := range []int32{5, 1 << 30, -2} {
		d := NewDecoder(append(AppendInt32(nil, n), "abc"...))
		require.Nil(t, d.Buffer())
		require.ErrorIs(t, d.Err, ErrShort)
		d = NewDecoder(append(AppendInt32(nil, 1<<30), "abc"...))
		d.Strings()
		require.ErrorIs(t, d.Err, ErrShort)
	}
}

func TestReadFrameRejectsAFrameThatIsTooLong(t *testing.T) {
	frame, err := ReadFrame(bytes.NewReader(Frame([]byte("abc"))), 3)
	require.NoError(t, err)
	require.Equal(t, Frame([]byte("abc")), frame)
	_, err = ReadFrame(strings.NewReader("HTTP/1.1 400 Bad Request\r\n"), 4096)
	require.ErrorContains(t, err, "at most 4096 expected")
}

func FuzzDecoder(f *testing.F) {
	f.Add(AppendString(AppendInt32(nil, 3), "x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := NewDecoder(b)
		d.Strings()
		_ = d.String()
		d.Int64()
		d.Bool()
	})
}
