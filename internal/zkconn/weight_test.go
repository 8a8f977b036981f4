package zkconn

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func ephemeral(path string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Flags: zk.FlagEphemeral}
}

// A transaction that needed the spare room may have taken the session above the bound.
func TestWhatDeletesAsMuchAsItCreatesIsAllowedAboveTheBound(t *testing.T) {
	a := newAccount(100) // a bound of 90, and 5 to spare
	first, second := ephemeral("/"+string(make([]byte, 80))), ephemeral("/12345")
	begin := func(over int, ops ...any) bool {
		_, ok := a.begin(ops, over)
		return ok
	}
	require.True(t, begin(0, first))
	a.carriedOut([]any{first}, nil)
	require.False(t, begin(0, second))
	require.True(t, begin(a.spare, second))
	a.carriedOut([]any{second}, nil)
	weight, _ := a.state()
	require.Greater(t, weight, a.bound)

	swap := []any{&zk.DeleteRequest{Path: second.Path}, ephemeral("/67890")}
	require.True(t, begin(0, swap...))
	a.carriedOut(swap, nil)
	require.False(t, begin(0, ephemeral("/x"), &zk.DeleteRequest{Path: "/unknown"}))
	release := []any{&zk.DeleteRequest{Path: first.Path}}
	require.True(t, begin(0, release...))
	a.carriedOut(release, nil)
	weight, znodes := a.state()
	require.Equal(t, Weight("/67890", false), weight)
	require.Equal(t, 1, znodes)
}
