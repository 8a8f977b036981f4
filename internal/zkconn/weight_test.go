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

func TestCreateSizeIsTheSizeOfTheRecord(t *testing.T) {
	for _, create := range []*zk.CreateRequest{
		{Path: "/a"},
		{Path: "/ä/b", Data: []byte("data")},
		{Path: "/a", Data: []byte{}, Acl: append(zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermRead, "user", "password")...)},
	} {
		record := appendOp(nil, create)[len(appendOpHeader(nil, 0, false)):]
		require.Equal(t, len(record), CreateSize(create.Path, create.Data, create.Acl), "%+v", create)
	}
}
