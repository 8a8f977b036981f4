package zkconn

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestAccountOfANumberedZnodeThatMeetsOneOfTheSamePath(t *testing.T) {
	a := newAccount(10_000)
	plain := []any{ephemeral("/n-0000000000")}
	seq := []any{&zk.CreateRequest{Path: "/n-", Flags: zk.FlagEphemeral | zk.FlagSequence}}
	_, ok := a.begin(seq, 0)
	require.True(t, ok)
	_, ok = a.begin(plain, 0)
	require.True(t, ok)
	a.carriedOut(seq, func(int) string { return "/n-0000000000" })
	require.NotPanics(t, func() {
		a.gone("/n-0000000000")
		a.refused(plain, 0, false)
	})
	weight, n := a.state()
	require.Zero(t, weight)
	require.Zero(t, n)
}

// One Commit of a user's can do this: OpCreate("/n-", sequential), OpDelete, OpCreate.
func TestAccountOfATransactionThatMakesAPathTwice(t *testing.T) {
	a := newAccount(10_000)
	ops := []any{
		&zk.CreateRequest{Path: "/n-", Flags: zk.FlagEphemeral | zk.FlagSequence},
		&zk.DeleteRequest{Path: "/n-0000000000"}, ephemeral("/n-0000000000"),
	}
	_, ok := a.begin(ops, 0)
	require.True(t, ok)
	require.NotPanics(t, func() { a.carriedOut(ops, func(int) string { return "/n-0000000000" }) })
	weight, _ := a.state()
	require.Equal(t, Weight("/n-0000000000", false), weight)
}
