package jute

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

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

// A frame's length may be wrong, or a lie.
func TestAFrameGetsMemoryAsItsBytesCome(t *testing.T) {
	for _, come := range []int{0, 1000, readStep, 10 * readStep} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := io.MultiReader(bytes.NewReader(AppendInt32(nil, 1<<30)), bytes.NewReader(make([]byte, come)))
		_, err := ReadFrame(r, 1<<30)
		runtime.ReadMemStats(&after)
		require.Error(t, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*come+2*readStep), "of %d bytes", come)
	}
}

func TestReadFrameIntoReadsFramesOfAnyLength(t *testing.T) {
	var buf []byte
	for _, n := range []int{0, 1, 508, 509, readStep - 4, readStep - 3, 2 * readStep, 5*readStep + 7, 3, readStep} {
		body := make([]byte, n)
		for i := range body {
			body[i] = byte(i * 7)
		}
		frame, err := ReadFrameInto(iotest.HalfReader(bytes.NewReader(Frame(body))), buf, 1<<30)
		require.NoError(t, err)
		require.True(t, bytes.Equal(Frame(body), frame), "%d bytes", n)
		buf = frame
	}
}
