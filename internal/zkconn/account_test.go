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

func TestWhatALostReplyMayHaveCreatedCountsUntilAListTells(t *testing.T) {
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
	step(t, a, &zk.DeleteRequest{Path: "/a"})(true, false)
	require.Equal(t, Weight("/n-", true), a.weight)
	a.found("/n--000000001")
	require.Equal(t, Weight("/n--000000001", false), a.weight)
	step(t, a, &zk.DeleteRequest{Path: "/n--000000001"})(true, false)
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

// loseNumbered begins the creation of a sequential znode, whose reply is lost.
func loseNumbered(t *testing.T, a *account, prefix string) {
	t.Helper()
	step(t, a, &zk.CreateRequest{Path: prefix, Flags: zk.FlagEphemeral | zk.FlagSequence})(false, true)
}

// Another session may have created the znode that is gone. If the account took it for its own, the next
// list would show a znode that it does not know, and the session would delete that.
func TestThatANumberedZnodeIsGoneDoesNotTellWhatALostReplyHasCreated(t *testing.T) {
	const other = "/app/n-0000000003"
	for name, gone := range map[string]func(*account){
		"deleted":        func(a *account) { step(t, a, &zk.DeleteRequest{Path: other})(true, false) },
		"deleted before": func(a *account) { a.appliedBefore([]any{&zk.DeleteRequest{Path: other}}, a.begins()) },
		"not deleted":    func(a *account) { a.missed(&zk.DeleteRequest{Path: other}) },
		"not set":        func(a *account) { a.missed(&zk.SetDataRequest{Path: other}) },
		"not checked":    func(a *account) { a.missed(&zk.CheckVersionRequest{Path: other}) },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(10_000, func(string) {})
			loseNumbered(t, a, "/app/n-")
			large := ephemeral("/" + string(make([]byte, a.bound-Weight("/app/n-", true)-4)))
			_, ok := a.begin([]any{large, &zk.DeleteRequest{Path: other}}, 0)
			require.False(t, ok, "the deletion makes no room")
			gone(a)
			_, strange, doubt := a.compare([]string{"/app/n-0000000007"}, 0)
			require.Empty(t, strange)
			require.False(t, doubt)
			require.Equal(t, Weight("/app/n-0000000007", false), a.weight)
		})
	}
}

func TestOnlyANumberMakesAZnodeOneThatALostReplyMayHaveCreated(t *testing.T) {
	for name, numbered := range map[string]bool{
		"0000000007": true, "2147483647": true, "-000000007": true, "-2147483648": true,
		"order-12345": false, "order-1234": false, "+000000007": false, "-0000000007": false, "00000000007": false,
		"2147483648": false, "-2147483649": false, "7": false,
	} {
		a := newAccount(10_000, func(string) {})
		loseNumbered(t, a, "/app/")
		_, strange, _ := a.compare([]string{"/app/" + name}, 0)
		require.Equal(t, numbered, len(strange) == 0, name)
		require.Equal(t, numbered, a.knows("/app/"+name), name)
	}
}

func TestTwoLostRepliesAreResolvedOneByOne(t *testing.T) {
	left := map[string]int{}
	a := newAccount(10_000, func(parent string) { left[parent]++ })
	loseNumbered(t, a, "/app/n-")
	loseNumbered(t, a, "/app/n-")
	one, two := "/app/n-0000000007", "/app/n-0000000009"
	for range 2 { // it is the same one again
		_, strange, _ := a.compare([]string{one}, 0)
		require.Empty(t, strange)
		require.Equal(t, 2*Weight(one, false), a.weight)
	}
	a.found(one)
	require.Equal(t, 2*Weight(one, false), a.weight, "it was known")
	_, strange, _ := a.compare([]string{one, two}, 0)
	require.Empty(t, strange)
	_, strange, _ = a.compare([]string{one, two, "/app/n-0000000005"}, 0)
	require.Equal(t, []string{"/app/n-0000000005"}, strange)
	step(t, a, &zk.DeleteRequest{Path: one}, &zk.DeleteRequest{Path: two})(true, false)
	require.Zero(t, a.weight)
	require.Empty(t, a.znodes)
	require.Equal(t, 3, left["/app"])
}

func TestWhatASearchDoesNotFindCountsNoMoreUnlessItsCreationIsUnderWay(t *testing.T) {
	s := New(Config{Left: func(string) {}})
	loseNumbered(t, s.account, "/app/n-")
	s.NoteAbsent("/app/n")
	require.Equal(t, 1, s.Load().Znodes)
	end := step(t, s.account, &zk.CreateRequest{Path: "/app/n-", Flags: zk.FlagEphemeral | zk.FlagSequence})
	s.NoteAbsent("/app/n-")
	require.Equal(t, 2*Weight("/app/n-", true), s.Load().Bytes)
	end(false, true)
	s.NoteFound("/app/n-0000000007")
	require.True(t, s.Parents()["/app"])
	s.NoteAbsent("/app/n-")
	require.Equal(t, Load{Bytes: Weight("/app/n-0000000007", false), Znodes: 1, Bound: s.Load().Bound}, s.Load())
	s.NoteAbsent("/app/n-0000000007")
	require.Zero(t, s.Load().Znodes)
	require.Empty(t, s.Parents())
}

func TestADeletionThatIsLearnedOfLateHitsNoZnodeThatWasCreatedSince(t *testing.T) {
	a := newAccount(10_000, func(string) {})
	step(t, a, ephemeral("/a"), ephemeral("/b"))(true, false)
	ops, begun := []any{&zk.DeleteRequest{Path: "/a"}, &zk.DeleteRequest{Path: "/b"}, ephemeral("/c")}, a.begins()
	step(t, a, ops...)(false, true)
	step(t, a, ephemeral("/a"))(true, false)
	a.appliedBefore(ops, begun)
	require.True(t, a.knows("/a"))
	require.False(t, a.knows("/b"))
	require.True(t, a.knows("/c"))
	step(t, a, &zk.DeleteRequest{Path: "/a"}, &zk.DeleteRequest{Path: "/c"})(true, false)
	require.Zero(t, a.weight)
}
