package wire

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestTwoCallsAreSentInOrderAndGetTheirOwnReplies(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		read, write := l.conn.CallBoth(jute.OpGetData, callFrame(1), jute.OpMulti, callFrame(2), nil)
		require.Equal(t, []string{"getData -1001", "multi -1002"}, l.sent())
		l.answer(reply(-1001, 1, 0, 'r'))
		require.True(t, ended(read))
		require.False(t, ended(write))
		l.answer(reply(-1002, 2, 0, 'w'))
		require.NoError(t, l.await(write))
		_, record, _ := read.Result()
		require.Equal(t, []byte{'r'}, record)
		_, record, _ = write.Result()
		require.Equal(t, []byte{'w'}, record)
	})
}

func TestOfTwoCallsOnlyTheFirstMayHaveBeenSentWhenTheConnectionIsLost(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connectStalled()
		read, write := l.conn.CallBoth(jute.OpGetData, callFrame(1), jute.OpMulti, callFrame(maxBatch), nil)
		synctest.Wait() // in the first write
		l.conn.Close()
		require.ErrorIs(t, l.await(read), ErrNoReply)
		require.ErrorIs(t, l.await(write), ErrNotSent)
		read, write = l.conn.CallBoth(jute.OpGetData, callFrame(1), jute.OpMulti, callFrame(2), nil)
		require.ErrorIs(t, l.await(read), ErrNotSent)
		require.ErrorIs(t, l.await(write), ErrNotSent)
	})
}

func TestManyCallsAreSentInOneWriteAndGetTheirOwnReplies(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.connect()
		calls := l.conn.CallAll(jute.OpDelete, [][]byte{callFrame(1), callFrame(2), callFrame(3)})
		require.Equal(t, []string{"delete -1001", "delete -1002", "delete -1003"}, l.sent())
		l.answer(reply(-1001, 1, 0, 'a'))
		require.True(t, ended(calls[0]))
		l.answer(reply(-1002, 2, -111, 'b'))
		l.answer(reply(-1003, 3, 0, 'c'))
		require.NoError(t, l.await(calls[2]))
		code, _, _ := calls[1].Result()
		require.EqualValues(t, -111, code)
	})
}
