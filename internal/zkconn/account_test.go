package zkconn

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func ephemeral(path string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Flags: zk.FlagEphemeral}
}

// step begins a transaction. The function that it returns ends it.
func step(t *testing.T, a *account, ops ...any) (end func(applied, doubtful bool)) {
	t.Helper()
	_, ok := a.begin(ops, 0)
	require.True(t, ok)
	return func(applied, doubtful bool) {
		var results []zk.MultiResponse
		for _, op := range ops {
			var r zk.MultiResponse
			if create, ok := op.(*zk.CreateRequest); ok {
				if r.String = create.Path; create.Flags&zk.FlagSequence != 0 {
					r.String += "0000000000"
				}
			}
			if applied {
				results = append(results, r)
			}
		}
		a.ended(ops, results, doubtful)
	}
}

// A transaction that needed the spare room may have taken the session above the bound.
func TestWhatDeletesAsMuchAsItCreatesIsAllowedAboveTheBound(t *testing.T) {
	a := newAccount(100, func(string) {}) // a bound of 90
	first, second := ephemeral("/"+string(make([]byte, 80))), ephemeral("/12345")
	begin := func(spare int, ops ...any) bool {
		_, ok := a.begin(ops, spare)
		return ok
	}
	step(t, a, first)(true, false)
	require.False(t, begin(0, second))
	require.True(t, begin(5, second))
	a.ended([]any{second}, []zk.MultiResponse{{String: second.Path}}, false)
	require.Greater(t, a.weight, a.bound)

	step(t, a, &zk.DeleteRequest{Path: second.Path}, ephemeral("/67890"))(true, false)
	require.False(t, begin(0, ephemeral("/x"), &zk.DeleteRequest{Path: "/unknown"}))
	require.False(t, begin(0, ephemeral("/x"), &zk.DeleteRequest{Path: "/67890"}, ephemeral("/67890")), "it stays")
	step(t, a, &zk.DeleteRequest{Path: first.Path})(true, false)
	require.Equal(t, Weight("/67890", false), a.weight)
	require.Len(t, a.znodes, 1)
}

// What a user's Commit may do.
func TestAccountOfTransactionsThatMakeAPathTwice(t *testing.T) {
	a := newAccount(10_000, func(string) {})
	seq := &zk.CreateRequest{Path: "/n-", Flags: zk.FlagEphemeral | zk.FlagSequence}
	plain, del := ephemeral("/n-0000000000"), &zk.DeleteRequest{Path: "/n-0000000000"}
	step(t, a, seq, del, plain)(true, false)
	require.Equal(t, Weight(plain.Path, false), a.weight)

	step(t, a, seq)(true, false) // its number comes again: somebody has made the parent anew
	require.Equal(t, Weight(plain.Path, false), a.weight)

	other := step(t, a, plain) // which meets the one that is there
	step(t, a, del)(true, false)
	other(false, false)
	require.Zero(t, a.weight)
}

func TestWhatALostReplyMayHaveCreatedCountsUntilAListOrADeletionTells(t *testing.T) {
	a := newAccount(10_000, func(string) {})
	named, seq := ephemeral("/a"), &zk.CreateRequest{Path: "/n-", Flags: zk.FlagEphemeral | zk.FlagSequence}
	both := Weight("/a", false) + Weight("/n-", true)
	lose := func() {
		step(t, a, named, seq)(false, true)
		require.Equal(t, both, a.weight)
	}
	compare := func(begun int64, listed ...string) {
		missing, strange, doubt := a.compare(listed, begun)
		require.Empty(t, missing)
		require.Empty(t, strange)
		require.False(t, doubt)
	}
	lose()
	a.deleted("/a") // an earlier one
	compare(0)      // a server that lags
	require.Equal(t, both, a.weight)
	compare(0, "/a", "/n-0000000007")
	require.True(t, a.knows("/n-0000000007"))
	require.Equal(t, both, a.weight)
	step(t, a, &zk.DeleteRequest{Path: "/a"}, &zk.DeleteRequest{Path: "/n-0000000007"})(true, false)
	require.Zero(t, a.weight)

	lose()
	step(t, a, &zk.DeleteRequest{Path: "/a"}, &zk.DeleteRequest{Path: "/n--0000000001"})(true, false)
	require.Zero(t, a.weight)

	lose()
	underWay := step(t, a, named)
	compare(a.begun)
	require.Equal(t, Weight("/a", false), a.weight)
	begun := a.begun
	underWay(false, true)
	step(t, a, seq)(false, true)
	compare(begun) // which was asked for before
	require.Equal(t, Weight("/n-", true), a.weight)
}
