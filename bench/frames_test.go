package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

// request and reply return frames.

func request(xid, op int32, record string) []byte {
	return jute.Frame(append(jute.AppendInt32(jute.AppendInt32(nil, xid), op), record...))
}

func reply(xid, code int32, record []byte) []byte {
	b := jute.AppendInt64(jute.AppendInt32(nil, xid), 7)
	return jute.Frame(append(jute.AppendInt32(b, code), record...))
}

func TestFramesAreCountedHoweverTheStreamIsCut(t *testing.T) {
	handshake := jute.Frame(make([]byte, 44))
	failed := jute.AppendInt32(nil, jute.OpError)
	created := jute.AppendInt32(nil, jute.OpCreate)
	var out, in []byte
	for _, f := range [][]byte{
		handshake,
		request(1, jute.OpCreate, "record"),
		request(jute.XidPing, jute.OpPing, ""),
		request(2, jute.OpGetChildren2, "record"),
		request(3, jute.OpDelete, "record"),
		request(-1001, jute.OpMulti, "record"),
		request(-1002, jute.OpMulti, "record"),
		request(4, jute.OpClose, ""),
	} {
		out = append(out, f...)
	}
	listing := reply(2, 0, make([]byte, 1000))
	replies := [][]byte{
		reply(1, 0, []byte("path")),
		reply(jute.XidEvent, 0, []byte("event")),
		listing,
		reply(3, jute.ErrNoNode, nil),
		reply(-1001, 0, failed),
		reply(-1002, 0, created),
	}
	want := counts{Requests: 5, Trips: 1, Commits: 2}
	in = append(in, handshake...)
	for _, f := range replies {
		in = append(in, f...)
		want.Received += int64(len(f))
	}
	in = append(in, reply(jute.XidPing, 0, nil)...)

	for _, piece := range []int{1, 3, 5, 24, 100, 1 << 20} {
		var got tally
		c := &counted{tally: &got, writes: map[int32]int32{}}
		cut(out, piece, func(p []byte) { c.out.feed(p, c.request) })
		cut(in, piece, func(p []byte) { c.in.feed(p, c.reply) })
		require.Equal(t, want, got.read(), "in pieces of %d", piece)
	}
}

// Requests that are under way together are one round trip. Heartbeats do not count.
func TestRoundTripsAreCounted(t *testing.T) {
	var got tally
	c := &counted{tally: &got, writes: map[int32]int32{}}
	c.out.later, c.in.later = true, true
	send := func(xid, op int32) { c.out.feed(request(xid, op, "record"), c.request) }
	answer := func(xid int32) { c.in.feed(reply(xid, 0, nil), c.reply) }
	for range 2 {
		send(1, jute.OpCreate)
		send(jute.XidPing, jute.OpPing)
		send(2, jute.OpGetData)
		answer(1)
		answer(jute.XidPing)
		answer(jute.XidEvent)
		send(3, jute.OpGetData)
		answer(2)
		answer(3)
	}
	require.EqualValues(t, 2, got.read().Trips)
}

func TestCountingAllocatesNothing(t *testing.T) {
	var got tally
	c := &counted{tally: &got, writes: map[int32]int32{}}
	c.out.later, c.in.later = true, true
	out, in := request(1, jute.OpCreate, "record"), reply(1, 0, make([]byte, 100))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		c.out.feed(out, c.request)
		c.in.feed(in, c.reply)
	}))
}

// BenchmarkCounting measures the time that counting adds to a request.
func BenchmarkCounting(b *testing.B) {
	var got tally
	c := &counted{tally: &got, writes: map[int32]int32{}}
	c.out.later, c.in.later = true, true
	out, in := request(1, jute.OpCreate, "record"), reply(1, 0, make([]byte, 100))
	for b.Loop() {
		c.out.feed(out, c.request)
		c.in.feed(in[:4], c.reply)
		c.in.feed(in[4:], c.reply)
	}
}

func cut(b []byte, piece int, f func([]byte)) {
	for len(b) > 0 {
		n := min(piece, len(b))
		f(b[:n])
		b = b[n:]
	}
}
