package zkrecipes_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"
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

// misusable matches the calls in callsWithContext to which the test gives a client, a path and a recipe.
var misusable = regexp.MustCompile(`^\(\*(Mutex|RWLock|Gate|Semaphore|Election|Queue|Barrier|DoubleBarrier|Group|Counter|Shards)\)\.\w+$|^\(\*Client\)\.(Get|ACL|Exists|Children|Watch)`)

// opsOfQueues are the operations that errors name.
var opsOfQueues = map[string]string{
	"Put": "put into", "PutAll": "put into", "Take": "take from", "TakeN": "take from", "TryTake": "take from",
	"Len": "count", "Peek": "peek into", "Items": "list", "Purge": "purge", "Find": "find an item of",
	"Remove": "remove an item of", "Bury": "bury an item of", "Redrive": "redrive", "Serve": "serve", "Serve, idling": "serve",
}

func TestEachCallNamesWhatIsWrongWithItAndSendsNothing(t *testing.T) {
	fails := func(entry string, ctx context.Context, misuse func(w *callWorld), want string) (err error) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			cw := newCallWorld(t, w)
			misuse(cw)
			call := callsWithContext[entry](cw)
			require.Empty(t, w.Requests(func() { err = call(ctx) }), entry)
			require.ErrorContains(t, err, want, entry)
		})
		return err
	}
	for entry := range callsWithContext {
		var none context.Context
		fails(entry, none, func(*callWorld) {}, "nil context")
		if !misusable.MatchString(entry) {
			continue
		}
		err := fails(entry, t.Context(), func(w *callWorld) { w.path = "bad" }, ` bad: path does not begin with "/"`)
		require.ErrorIs(t, err, zkrecipes.ErrInvalidPath)
		var e *zkrecipes.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "bad", e.Path)
		if method, ok := strings.CutPrefix(entry, "(*Queue)."); ok {
			require.Equal(t, opsOfQueues[method], e.Op, entry)
		}
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			cw := newCallWorld(t, w)
			cw.by = w.Client(nil)
			require.NoError(t, cw.by.Close())
			call := callsWithContext[entry](cw)
			require.Empty(t, w.Requests(func() { require.ErrorIs(t, call(t.Context()), zkrecipes.ErrClosed, entry) }))
		})
		for want, c := range map[string]*zkrecipes.Client{" /x: nil client": nil, " /x: client was not made by Dial": {}} {
			fails(entry, t.Context(), func(w *callWorld) { w.by, w.path = c, "/x" }, want)
		}
		if strings.HasPrefix(entry, "(*Client)") { // which reads the root, too
			continue
		}
		fails(entry, t.Context(), func(w *callWorld) { w.path = "/" }, " /: path is the root")
		for _, none := range []string{"nil", "zero"} {
			fails(entry, t.Context(), func(w *callWorld) { w.none = none }, ` "": not made by `)
		}
	}
}

func TestRecipesRefuseAnEphemeralZnodeAsTheirPathOrItsParent(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, ctx, conn := w.Client(nil), t.Context(), w.Bare()
		_, err := conn.Create("/ephemeral", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for recipe := range recipetest.Recipes {
			require.ErrorIs(t, recipetest.UseOnce(ctx, recipe, c, "/ephemeral/x"), zk.ErrNoChildrenForEphemerals, recipe)
			if recipe != "gate" { // any znode is a shut one
				require.ErrorIs(t, recipetest.UseOnce(ctx, recipe, c, "/ephemeral"), zk.ErrNoChildrenForEphemerals, recipe)
			}
		}
		require.EqualError(t, errOf(zkrecipes.NewMutex(c, "/ephemeral").Lock)(ctx), "zkrecipes: lock /ephemeral: zk: ephemeral nodes may not have children")
		_, err = conn.Create("/future", []byte("zkrecipes/9 mutex"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		require.EqualError(t, errOf(zkrecipes.NewMutex(c, "/future").Lock)(ctx),
			`zkrecipes: lock /future: path is used by a version with another layout: "zkrecipes/9 mutex"`)
	})
}

func TestNilArgumentsAndAClosedClientAreErrors(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, ctx := w.Client(nil), t.Context()
		m := zkrecipes.NewMutex(c, w.Path)
		require.EqualError(t, m.Do(ctx, nil), "zkrecipes: lock /line: nil function")
		require.EqualError(t, zkrecipes.NewElection(c, "/e").Lead(ctx, nil, nil), "zkrecipes: lead /e: nil function")
		require.EqualError(t, zkrecipes.NewQueue(c, "/q", nil).Serve(ctx, nil), "zkrecipes: serve /q: nil function")
		_, err := (*zkrecipes.Queue)(nil).DeadLetters().Put(ctx, nil)
		require.EqualError(t, err, `zkrecipes: put into "": not made by NewQueue`)
		var none context.Context
		l := recipetest.LockOn(t, m)
		require.Panics(t, func() { l.Context(none) })
		require.Panics(t, func() { l.Reentrant(none) })
		require.NoError(t, l.Release())
		require.NoError(t, c.Close())
		require.EqualError(t, errOf(m.Lock)(ctx), "zkrecipes: lock /line: client closed")
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
		{[]string{"a,b"}, zkrecipes.Options{}, `a,b: server "a,b" is not host or host:port: use ParseServers to split a connect string`},
		{h, zkrecipes.Options{SessionTimeout: -time.Second}, `h: Options.SessionTimeout must be from 1ms to 596h31m23.647s: -1s`},
		{h, zkrecipes.Options{SessionTimeout: time.Microsecond}, `h: Options.SessionTimeout must be from 1ms to 596h31m23.647s: 1µs`},
		{h, zkrecipes.Options{SessionTimeout: math.MaxInt64}, fmt.Sprint(`h: Options.SessionTimeout must be from 1ms to 596h31m23.647s: `, time.Duration(math.MaxInt64))},
		{h, zkrecipes.Options{MaxBuffer: 1 << 31}, `h: Options.MaxBuffer must be from 0 to 2147483647: 2147483648`},
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

func TestAuthACLMeansTheUsersIDs(t *testing.T) {
	for _, side := range recipetest.Sides {
		ctx, plain := harness.Within(t, 2*time.Minute), harness.NewPath(t)
		_, err := zkrecipes.Dial(ctx, harness.Servers(), &zkrecipes.Options{ACL: zk.AuthACL(zk.PermAll)})
		require.ErrorContains(t, err, `Options.ACL: ACL of scheme "auth" without Options.Auth`)

		l := recipetest.Held(t, side.Ours(recipetest.Dial(t, nil), plain).Lock)
		_, err = l.Commit(ctx, zkrecipes.OpCreate(plain+"/x", nil, 0, zk.AuthACL(zk.PermAll)))
		require.ErrorContains(t, err, `operation 0: create `+plain+`/x: ACL of scheme "auth" without Options.Auth`)
		require.NoError(t, l.Release())

		auth := []zkrecipes.Auth{{Scheme: "digest", Data: []byte("alice:secret")}}
		c := recipetest.Dial(t, &zkrecipes.Options{Auth: auth, ACL: zk.AuthACL(zk.PermAll)})
		user := harness.Raw(t)
		require.NoError(t, user.AddAuth("digest", []byte("alice:secret")))
		path := harness.NewPath(t)
		l = recipetest.Held(t, side.Ours(c, path).Lock)
		require.NoError(t, first(l.Commit(ctx, zkrecipes.OpCreate(path+"-data", nil, 0, zk.AuthACL(zk.PermAll)))))
		alices := zk.DigestACL(zk.PermAll, "alice", "secret")
		for p, want := range map[string][]zk.ACL{path: c.Core().ACL, path + "-data": alices} {
			acl, _, err := user.GetACL(p)
			require.NoError(t, err)
			require.Equal(t, want, acl)
			require.Equal(t, alices[0].ID, acl[0].ID)
		}
		require.NoError(t, l.Release())
		// Another session can use the znodes that this one has created.
		require.NoError(t, side.Theirs(recipetest.Dial(t, &zkrecipes.Options{Auth: auth}), path).Do(ctx, recipetest.Nothing))
	}
}

func TestServersAreHostsWithOrWithoutAPort(t *testing.T) {
	for server, want := range map[string]string{
		"h": "h:2181", "h:1": "h:1", "1.2.3.4": "1.2.3.4:2181", "1.2.3.4:99": "1.2.3.4:99",
		"::1": "[::1]:2181", "[::1]": "[::1]:2181", "[::1]:99": "[::1]:99", "[2001:DB8::0]:99": "[2001:db8::]:99",
		"fe80::1%eth0": "[fe80::1%eth0]:2181", "[fe80::1%eth0]": "[fe80::1%eth0]:2181", "[fe80::1%eth0]:99": "[fe80::1%eth0]:99",
	} {
		servers, prefix, err := zkrecipes.ParseServers(server)
		require.NoError(t, err, server)
		require.Equal(t, []string{want}, servers)
		require.Empty(t, prefix)
	}
	for _, server := range []string{":1", "h:", "h:x", "h:0", "h:65536", "a:b:c", "a b",
		"[::1", "::1]", "[::1]99", "[]", "[a:b]:99", "fe80::1%eth0:99", "fe80::1%eth0]:99", "[fe80::1%eth0]:99]", "[fe80::1%eth0]:x"} {
		_, _, err := zkrecipes.ParseServers(server)
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
