package zkconn

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

func TestTransientErrorsMayBeRetriedInTheSameSession(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{zk.ErrConnectionClosed, true},
		{zk.ErrClosing, true},
		{zk.ErrNoServer, true},
		{zk.ErrSessionExpired, true},
		{zk.ErrSessionMoved, true},
		{zk.ErrNothing, true},
		{ErrNotSent, true},
		{fmt.Errorf("wrapped: %w", zk.ErrConnectionClosed), true},

		{nil, false},
		{ErrSessionOver, false}, // although it wraps zk.ErrSessionExpired
		{ErrContended, false},
		{zk.ErrNoNode, false},
		{context.Canceled, false},
		{errors.Join(context.DeadlineExceeded, zk.ErrConnectionClosed), false},
		{&ContextError{Err: context.Canceled, Cause: zk.ErrSessionExpired}, false},
	} {
		require.Equal(t, test.want, Transient(test.err), "%v", test.err)
	}
}

func TestContextErrReturnsErrorAndCause(t *testing.T) {
	canceled := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	enough := errors.New("enough")
	for name, test := range map[string]struct {
		ctx  context.Context
		want error
	}{
		"canceled":   {canceled(nil), context.Canceled},
		"deadline":   {expired, context.DeadlineExceeded},
		"with cause": {canceled(enough), &ContextError{Err: context.Canceled, Cause: enough}},
		"stopped":    {canceled(Stopped(enough)), enough},
	} {
		t.Run(name, func(t *testing.T) {
			err := ContextErr(test.ctx)
			require.Equal(t, test.want, err)
			require.True(t, IsContextErr(test.ctx, err))
			require.False(t, IsContextErr(t.Context(), err), "that context has not ended")
			require.False(t, IsContextErr(test.ctx, zk.ErrNoNode))
		})
	}
	require.NoError(t, ContextErr(t.Context()))
	require.True(t, IsContextErr(expired, fmt.Errorf("wrapped: %w", context.DeadlineExceeded)))
	require.False(t, IsContextErr(expired, context.Canceled), "another context's error")
}

func TestContextErrorHidesItsCauseFromErrorsIs(t *testing.T) {
	err := error(&ContextError{Err: context.Canceled, Cause: zk.ErrSessionExpired})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, zk.ErrSessionExpired)
	require.EqualError(t, err, "context canceled: "+zk.ErrSessionExpired.Error())
}

func TestStoppedWrapsItsError(t *testing.T) {
	err := Stopped(zk.ErrNoNode)
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.EqualError(t, err, zk.ErrNoNode.Error())
}

func TestCodeErrorNamesUnknownCodes(t *testing.T) {
	require.NoError(t, codeError(0))
	require.Equal(t, zk.ErrNoNode, codeError(jute.ErrNoNode))
	for _, code := range []int32{jute.ErrConnectionLoss, jute.ErrOperationTimeout, jute.ErrThrottled} {
		require.ErrorIs(t, codeError(code), zk.ErrNothing)
		require.ErrorContains(t, codeError(code), fmt.Sprintf("(error %d of the server)", code))
	}
	require.EqualError(t, codeError(-1), "SystemError (error -1 of the server)")
	require.EqualError(t, codeError(-999), "error -999 of the server")
	require.ErrorContains(t, codeError(jute.ErrSASL), "the server requires SASL")
}

func TestErrorsInResultsAreDecodedAsByGoZookeeper(t *testing.T) {
	for _, code := range []int32{
		jute.ErrBadArguments, jute.ErrNoNode, jute.ErrNoAuth, jute.ErrBadVersion, jute.ErrNoChildrenForEphemerals,
		jute.ErrNodeExists, jute.ErrNotEmpty, jute.ErrSessionExpired, jute.ErrInvalidACL, jute.ErrAuthFailed,
		jute.ErrSessionMoved,
	} {
		record := appendResult(nil, -1, 0) // rolled back
		record = appendResult(record, -1, code)
		record = appendResult(record, -1, -2) // not attempted
		record = appendOpHeader(record, -1, true)
		_, want, _ := asGoZookeeper(t, record, &zk.DeleteRequest{}, &zk.DeleteRequest{}, &zk.DeleteRequest{})
		got, err := decodeMulti(record)
		require.NoError(t, err)
		require.Len(t, got, 3)
		require.NoError(t, got[0].Error)
		require.Error(t, got[1].Error)
		require.Equal(t, want[1].Error, got[1].Error, "error %d", code)
		require.ErrorContains(t, got[2].Error, "-2")
	}
}

// A real server reports the quota in this form for one operation of a transaction.
func TestQuotaErrorIsDecodedFromResults(t *testing.T) {
	var record []byte
	for _, code := range []int32{jute.ErrQuotaExceeded, jute.ErrRuntimeInconsistency} {
		record = jute.AppendInt32(appendOpHeader(record, jute.OpError, false), code)
	}
	rs, err := decodeMulti(appendOpHeader(record, -1, true))
	require.NoError(t, err)
	require.Len(t, rs, 2)
	require.ErrorContains(t, rs[0].Error, fmt.Sprint(jute.ErrQuotaExceeded))
}
