package zkrecipes_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Invalid input and misuse of the library.

func TestBadPathsAreNamed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, ctx := w.Client(nil), t.Context()
		for path, want := range map[string]string{
			"":           `"": path is empty`,
			"locks":      `locks: path does not begin with "/"`,
			"/":          `/: path is the root`,
			"/a/":        `/a/: path ends with "/"`,
			"/a//b":      `/a//b: path contains "//"`,
			"/a/./b":     `/a/./b: path contains the relative element "."`,
			"/a/..":      `/a/..: path contains the relative element ".."`,
			"/a\x00b":    `"/a\x00b": path contains the character U+0000 at byte 2`,
			"/a\u0085b":  "/a\u0085b" + `: path contains the character U+0085 at byte 2`,
			"/a\uf8ffb":  "/a\uf8ffb" + `: path contains the character U+F8FF at byte 2`,
			"/a\xff\xfe": "/a\xff\xfe" + `: path is not valid UTF-8`,
		} {
			m := zkrecipes.NewMutex(c, path)
			require.Empty(t, w.Requests(func() {
				require.EqualError(t, errOf(m.Lock)(ctx), "zkrecipes: lock "+want)
				require.EqualError(t, errOf(m.TryLock)(ctx), "zkrecipes: try lock "+want)
				require.EqualError(t, errOf(m.Contenders)(ctx), "zkrecipes: list "+want)
			}))
			if path != "" {
				_, err := zkrecipes.Dial(ctx, []string{"h"}, &zkrecipes.Options{Prefix: path})
				require.ErrorContains(t, err, "Options.Prefix")
			}
		}
		for _, path := range []string{"/a.b", "/..a", "/ünï/ключ", "/a b"} {
			require.NoError(t, zkrecipes.NewMutex(c, w.Path+path).Do(ctx, recipetest.Nothing), path)
		}

		conn := w.Bare()
		_, err := conn.Create("/ephemeral", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for _, path := range []string{"/ephemeral", "/ephemeral/x"} {
			err := errOf(zkrecipes.NewMutex(c, path).Lock)(ctx)
			require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
			require.EqualError(t, err, "zkrecipes: lock "+path+": zk: ephemeral nodes may not have children")
		}
		_, err = conn.Create("/future", []byte("zkrecipes/9 mutex"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.EqualError(t, errOf(zkrecipes.NewMutex(c, "/future").Lock)(ctx),
			`zkrecipes: lock /future: path is used by a version with another layout: "zkrecipes/9 mutex"`)
	})
}

func TestBadOperationsOfALeaseAreNamed(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(w.Client(nil), w.Path))
		require.EqualError(t, second(l.Get(t.Context(), "x")), `zkrecipes: get x: path does not begin with "/"`)
		require.EqualError(t, second(l.Children(t.Context(), "/x/")), `zkrecipes: list /x/: path ends with "/"`)
		for want, op := range map[string]zkrecipes.Op{
			`create "x": path does not begin with "/"`:                                zkrecipes.OpCreate("x", nil, 0, nil),
			`create /x: flags 4: a transaction cannot create containers or TTL nodes`: zkrecipes.OpCreate("/x", nil, zk.FlagContainer, nil),
			`set data of "/x/": path ends with "/"`:                                   zkrecipes.OpSet("/x/", nil, 0),
			`delete "": path is empty`:                                                zkrecipes.OpDelete("", 0),
			`check "/a//b": path contains "//"`:                                       zkrecipes.OpCheck("/a//b", 0),
			`the zero Op (OpCreate, OpSet, OpDelete and OpCheck make operations)`:     {},
		} {
			require.Empty(t, w.Requests(func() {
				require.EqualError(t, first(l.Commit(t.Context(), zkrecipes.OpCheck(w.Path, -1), op)), "zkrecipes: commit under /line: operation 1: "+want)
			}))
		}
		require.NoError(t, l.Err())
	})
}

func TestBadOptionsAreNamed(t *testing.T) {
	ctx, h := harness.Within(t, 2*time.Minute), []string{"h"}
	secret := []byte("secret")
	for _, tt := range []struct {
		servers []string
		opts    zkrecipes.Options
		want    string
	}{
		{nil, zkrecipes.Options{}, `"": no servers`},
		{[]string{""}, zkrecipes.Options{}, `"": server "" is not host or host:port`},
		{[]string{"a/b:1"}, zkrecipes.Options{}, `a/b:1: server "a/b:1" is not host or host:port: use ParseServers to split a connect string`},
		{h, zkrecipes.Options{SessionTimeout: -time.Second}, `h: Options.SessionTimeout is -1s`},
		{h, zkrecipes.Options{SessionTimeout: time.Microsecond}, `h: Options.SessionTimeout is 1µs`},
		{h, zkrecipes.Options{SessionTimeout: math.MaxInt64}, fmt.Sprint(`h: Options.SessionTimeout is `, time.Duration(math.MaxInt64))},
		{h, zkrecipes.Options{MaxBuffer: 1 << 31}, `h: Options.MaxBuffer is 2147483648`},
		{h, zkrecipes.Options{Prefix: "app"}, `h: Options.Prefix "app": path does not begin with "/"`},
		{h, zkrecipes.Options{Auth: []zkrecipes.Auth{{Data: secret}}}, `h: Options.Auth[0] has no scheme`},
		{h, zkrecipes.Options{ACL: zk.WorldACL(zk.PermAll &^ zk.PermWrite)}, `h: Options.ACL: world:anyone may create and not write: clients of a recipe write the znodes of each other`},
		{h, zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "sasl", Data: secret}}}, `h: Options.ACL is needed: the id of a credential of scheme "sasl" is not known`},
	} {
		c, err := zkrecipes.Dial(ctx, tt.servers, &tt.opts)
		require.Nil(t, c)
		require.EqualError(t, err, "zkrecipes: dial "+tt.want)
	}
}

// Without this error the bubble would stand still, in real time.
func TestDialOfAServerInMemoryWithoutItsDialerFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(t, zktest.InMemory())
		_, err := zkrecipes.Dial(t.Context(), []string{srv.Addr()}, nil)
		require.EqualError(t, err, "zkrecipes: dial 192.0.2.1:2181: Options.Dialer is not set: a zktest server in memory needs its DialContext")
	})
}

func TestNilArgumentsAndAClosedClientAreErrors(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, ctx := w.Client(nil), t.Context()
		const unmade = `lock "": not made by its constructor (NewMutex, NewRWLock, NewGate, ...)`
		for m, want := range map[*zkrecipes.Mutex]string{new(zkrecipes.Mutex): unmade, nil: unmade, zkrecipes.NewMutex(nil, "/x"): "lock /x: nil client"} {
			require.EqualError(t, errOf(m.Lock)(ctx), "zkrecipes: "+want)
			require.EqualError(t, m.Do(ctx, recipetest.Nothing), "zkrecipes: "+want)
			require.Error(t, errOf(m.TryLock)(ctx))
			require.Error(t, errOf(m.Contenders)(ctx))
		}
		var none context.Context
		m := zkrecipes.NewMutex(c, w.Path)
		l := recipetest.LockOn(t, m)
		_, err := zkrecipes.Dial(none, []string{"h"}, nil)
		require.ErrorContains(t, err, "nil context")
		for want, err := range map[string]error{
			"lock /line: nil context":         errOf(m.Lock)(none),
			"try lock /line: nil context":     errOf(m.TryLock)(none),
			"list /line: nil context":         errOf(m.Contenders)(none),
			"lock /line: nil function":        m.Do(ctx, nil),
			"commit under /line: nil context": first(l.Commit(none)),
			"get /x: nil context":             second(l.Get(none, "/x")),
		} {
			require.EqualError(t, err, "zkrecipes: "+want)
		}
		require.Error(t, m.Do(none, recipetest.Nothing))
		require.Panics(t, func() { l.Context(none) })
		require.Panics(t, func() { l.Reentrant(none) })
		require.NoError(t, l.Release())
		require.NoError(t, c.Close())
		require.EqualError(t, errOf(m.Lock)(ctx), "zkrecipes: lock /line: client closed")
	})
}

func TestAuthACLMeansTheUsersIDs(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		ctx := r.Ctx
		_, err := zkrecipes.Dial(ctx, harness.Servers(), &zkrecipes.Options{ACL: zk.AuthACL(zk.PermAll)})
		require.ErrorContains(t, err, `Options.ACL: ACL of scheme "auth" without Options.Auth`)

		l := recipetest.Held(t, r.M.Lock)
		_, err = l.Commit(ctx, zkrecipes.OpCreate(r.Path+"/x", nil, 0, zk.AuthACL(zk.PermAll)))
		require.ErrorContains(t, err, `operation 0: create `+r.Path+`/x: ACL of scheme "auth" without Options.Auth`)
		require.NoError(t, l.Release())

		auth := []zkrecipes.Auth{{Scheme: "digest", Data: []byte("alice:secret")}}
		c := recipetest.Dial(t, &zkrecipes.Options{Auth: auth, ACL: zk.AuthACL(zk.PermAll)})
		user := harness.Raw(t)
		require.NoError(t, user.AddAuth("digest", []byte("alice:secret")))
		path := harness.NewPath(t)
		l = recipetest.Held(t, r.Ours(c, path).Lock)
		_, err = l.Commit(ctx, zkrecipes.OpCreate(path+"-data", nil, 0, zk.AuthACL(zk.PermAll)))
		require.NoError(t, err)
		alices := zk.DigestACL(zk.PermAll, "alice", "secret")
		for p, want := range map[string][]zk.ACL{path: c.Core().ACL, path + "-data": alices} {
			acl, _, err := user.GetACL(p)
			require.NoError(t, err)
			require.Equal(t, want, acl)
			require.Equal(t, alices[0].ID, acl[0].ID)
		}
		require.NoError(t, l.Release())
		// Another session can use the znodes that this one has created.
		require.NoError(t, r.Theirs(recipetest.Dial(t, &zkrecipes.Options{Auth: auth}), path).Do(ctx, recipetest.Nothing))
	})
}

func TestServersAreHostsWithOrWithoutAPort(t *testing.T) {
	for server, want := range map[string]string{
		"h": "h:2181", "h:1": "h:1", "1.2.3.4": "1.2.3.4:2181", "1.2.3.4:99": "1.2.3.4:99",
		"::1": "[::1]:2181", "[::1]": "[::1]:2181", "[::1]:99": "[::1]:99", "[2001:DB8::0]:99": "[2001:db8::]:99",
		"fe80::1%eth0": "[fe80::1%eth0]:2181", "[fe80::1%eth0]": "[fe80::1%eth0]:2181", "[fe80::1%eth0]:99": "[fe80::1%eth0]:99",
	} {
		got, err := zkrecipes.ParseServer(server)
		require.NoError(t, err, server)
		require.Equal(t, want, got)
	}
	for _, server := range []string{"", ":1", "h:", "h:x", "h:0", "h:65536", "h:2181/chroot", "a:b:c", "a,b", "a b",
		"[::1", "::1]", "[::1]99", "[]", "[a:b]:99", "fe80::1%eth0:99", "fe80::1%eth0]:99", "[fe80::1%eth0]:99]", "[fe80::1%eth0]:x"} {
		_, err := zkrecipes.ParseServer(server)
		require.ErrorContains(t, err, "is not host or host:port", server)
	}
}

func TestConnectStringIsSplitIntoServersAndPrefix(t *testing.T) {
	for connect, want := range map[string][]string{
		"zk1:2181,zk2:2182/app":   {"/app", "zk1:2181", "zk2:2182"},
		"zk1":                     {"", "zk1:2181"},
		" zk1 , zk2:1 /a/b":       {"/a/b", "zk1:2181", "zk2:1"},
		"zk1/":                    {"", "zk1:2181"},
		"[::1]:2182,::1,10.0.0.1": {"", "[::1]:2182", "[::1]:2181", "10.0.0.1:2181"},
	} {
		servers, prefix, err := zkrecipes.ParseServers(connect)
		require.NoError(t, err, connect)
		require.Equal(t, want, append([]string{prefix}, servers...), connect)
	}
	for connect, want := range map[string]string{
		"":            `zkrecipes: parse servers "": no servers`,
		"/app":        `zkrecipes: parse servers /app: no servers`,
		"zk1,,zk2":    `zkrecipes: parse servers zk1,,zk2: server "" is not host or host:port`,
		"zk1:0":       `zkrecipes: parse servers zk1:0: server "zk1:0" is not host or host:port`,
		"zk1:x/app":   `zkrecipes: parse servers zk1:x/app: server "zk1:x" is not host or host:port`,
		"zk1 zk2/app": `zkrecipes: parse servers "zk1 zk2/app": server "zk1 zk2" is not host or host:port`,
		"zk1/a//b":    `prefix "/a//b"`,
		"zk1/a/":      `prefix "/a/"`,
		"zk1/a/../b":  `prefix "/a/../b"`,

		"zk1:2181/app,zk2:2181/app": `prefix "/app,zk2:2181/app": path contains a comma: it stands once, after the last server`,
	} {
		servers, prefix, err := zkrecipes.ParseServers(connect)
		require.ErrorContains(t, err, want, connect)
		require.Empty(t, servers)
		require.Empty(t, prefix)
	}
	for _, connect := range []string{"zk1/a//b", "zk1/a,zk2/a"} {
		_, _, err := zkrecipes.ParseServers(connect)
		require.ErrorIs(t, err, zkrecipes.ErrInvalidPath)
	}
}

func TestDialOfAConnectStringNamesParseServers(t *testing.T) {
	for _, servers := range [][]string{{"zk1:2181,zk2:2181"}, {"zk1:2181/app"}, {"zk1:2181", "zk2:2181/app"}, {"zk1/app", "zk2/app"}} {
		_, err := zkrecipes.Dial(t.Context(), servers, nil)
		require.ErrorContains(t, err, "use ParseServers to split a connect string")
	}
	_, err := zkrecipes.Dial(t.Context(), []string{"zk1:x"}, nil)
	require.EqualError(t, err, `zkrecipes: dial zk1:x: server "zk1:x" is not host or host:port`)
}
