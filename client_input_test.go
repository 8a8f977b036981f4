package zkrecipes

import (
	"context"
	"crypto"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// Invalid input and misuse of the library.

func TestB39BadPathsAreNamed(t *testing.T) {
	r := newRig(t, nil)
	for path, want := range map[string]string{
		"":           `zkrecipes: lock "": path is empty`,
		"locks":      `zkrecipes: lock locks: path does not begin with "/"`,
		"/":          `zkrecipes: lock /: path is the root`,
		"/a/":        `zkrecipes: lock /a/: path ends with "/"`,
		"/a//b":      `zkrecipes: lock /a//b: path contains "//"`,
		"/a/./b":     `zkrecipes: lock /a/./b: path contains the relative element "."`,
		"/a/..":      `zkrecipes: lock /a/..: path contains the relative element ".."`,
		"/a\x00b":    `zkrecipes: lock "/a\x00b": path contains the character U+0000 at byte 2`,
		"/a\u0085b":  `zkrecipes: lock ` + "/a\u0085b" + `: path contains the character U+0085 at byte 2`,
		"/a\uf8ffb":  `zkrecipes: lock ` + "/a\uf8ffb" + `: path contains the character U+F8FF at byte 2`,
		"/a\xff\xfe": `zkrecipes: lock ` + "/a\xff\xfe" + `: path is not valid UTF-8`,
	} {
		m := NewMutex(r.c, path)
		r.p.Reset()
		_, err := m.Lock(r.ctx)
		require.EqualError(t, err, want)
		_, err = m.TryLock(r.ctx)
		require.EqualError(t, err, strings.Replace(want, "lock", "try lock", 1))
		_, err = m.Contenders(r.ctx)
		require.EqualError(t, err, strings.Replace(want, "lock", "list", 1))
		require.Empty(t, r.p.Count())
		if path != "" {
			_, err = Dial(r.ctx, harness.Servers(), &Options{Prefix: path})
			require.ErrorContains(t, err, "Options.Prefix")
		}
	}
	for _, path := range []string{"/a.b", "/..a", "/ünï/ключ", "/a b"} {
		require.NoError(t, NewMutex(r.c, r.path+path).Do(r.ctx, nothing), path)
	}

	t.Run("an ephemeral parent", func(t *testing.T) {
		parent, err := r.raw.Create(r.path+"/ephemeral", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		for _, path := range []string{parent, parent + "/x"} {
			_, err = NewMutex(r.c, path).Lock(r.ctx)
			require.ErrorIs(t, err, zk.ErrNoChildrenForEphemerals)
			require.EqualError(t, err, "zkrecipes: lock "+path+": zk: ephemeral nodes may not have children")
		}
	})
	t.Run("a line of another layout", func(t *testing.T) {
		_, err := r.raw.Create(r.path+"/future", []byte("zkrecipes/9 mutex"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = NewMutex(r.c, r.path+"/future").Lock(r.ctx)
		require.EqualError(t, err, "zkrecipes: lock "+r.path+`/future: path is used by a version with another layout: "zkrecipes/9 mutex"`)
	})
	t.Run("in a lease's operations", func(t *testing.T) {
		l := r.lock()
		_, _, err := l.Get(r.ctx, "x")
		require.EqualError(t, err, `zkrecipes: get x: path does not begin with "/"`)
		_, _, err = l.Children(r.ctx, "/x/")
		require.EqualError(t, err, `zkrecipes: list /x/: path ends with "/"`)
		for want, op := range map[string]Op{
			`create "x": path does not begin with "/"`:                                OpCreate("x", nil, 0, nil),
			`create /x: flags 4: a transaction cannot create containers or TTL nodes`: OpCreate("/x", nil, zk.FlagContainer, nil),
			`set data of "/x/": path ends with "/"`:                                   OpSet("/x/", nil, 0),
			`delete "": path is empty`:                                                OpDelete("", 0),
			`check "/a//b": path contains "//"`:                                       OpCheck("/a//b", 0),
			`the zero Op (OpCreate, OpSet, OpDelete and OpCheck make operations)`:     {},
		} {
			_, err = l.Commit(r.ctx, OpCheck(r.path, -1), op)
			require.EqualError(t, err, "zkrecipes: commit under "+r.path+": operation 1: "+want)
		}
		require.NoError(t, l.Release())
	})
}

func TestB39BadOptionsAreNamed(t *testing.T) {
	ctx := harness.Within(t, 10*time.Second)
	for want, f := range map[string]func() (*Client, error){
		`zkrecipes: dial "": no servers`: func() (*Client, error) { return Dial(ctx, nil, nil) },
		`zkrecipes: dial "": server "" is not host or host:port`: func() (*Client, error) {
			return Dial(ctx, []string{""}, nil)
		},
		`zkrecipes: dial a/b:1: server "a/b:1" is not host or host:port`: func() (*Client, error) {
			return Dial(ctx, []string{"a/b:1"}, nil)
		},
		`zkrecipes: dial h: Options.SessionTimeout is -1s`: func() (*Client, error) {
			return Dial(ctx, []string{"h"}, &Options{SessionTimeout: -time.Second})
		},
		`zkrecipes: dial h: Options.SessionTimeout is 1µs`: func() (*Client, error) {
			return Dial(ctx, []string{"h"}, &Options{SessionTimeout: time.Microsecond})
		},
		fmt.Sprintf(`zkrecipes: dial h: Options.SessionTimeout is %v`, time.Duration(math.MaxInt64)): func() (*Client, error) {
			return Dial(ctx, []string{"h"}, &Options{SessionTimeout: math.MaxInt64})
		},
		`zkrecipes: dial h: Options.Prefix "app": path does not begin with "/"`: func() (*Client, error) {
			return Dial(ctx, []string{"h"}, &Options{Prefix: "app"})
		},
		`zkrecipes: dial h: Options.Auth[0] has no scheme`: func() (*Client, error) {
			return Dial(ctx, []string{"h"}, &Options{Auth: []Auth{{Data: []byte("secret")}}})
		},
		`zkrecipes: dial h: Options.DigestAlgorithm: unknown hash value 99 is not available`: func() (*Client, error) {
			return Dial(ctx, []string{"h"}, &Options{DigestAlgorithm: 99})
		},
		`zkrecipes: dial h: Options.DigestAlgorithm: MD4 is not available`: func() (*Client, error) {
			return Dial(ctx, []string{"h"}, &Options{DigestAlgorithm: crypto.MD4})
		},
		`zkrecipes: dial h: Options.ACL is needed: the ids of Options.Auth are not known`: func() (*Client, error) {
			return Dial(ctx, []string{"h"}, &Options{Auth: []Auth{{Scheme: "sasl", Data: []byte("secret")}}})
		},
	} {
		c, err := f()
		require.Nil(t, c)
		require.EqualError(t, err, want)
	}
}

func TestB40NilArgumentsAndAClosedClientAreErrors(t *testing.T) {
	r := newRig(t, nil)
	var none context.Context
	var zero Mutex
	var nilMutex *Mutex
	const unmade = `lock "": not made by its constructor (NewMutex, NewRWLock, NewGate, ...)`
	for m, want := range map[*Mutex]string{&zero: unmade, nilMutex: unmade, NewMutex(nil, "/x"): "lock /x: nil client"} {
		_, err := m.Lock(r.ctx)
		require.EqualError(t, err, "zkrecipes: "+want)
		require.EqualError(t, m.Do(r.ctx, nothing), "zkrecipes: "+want)
		_, err = m.TryLock(r.ctx)
		require.Error(t, err)
		_, err = m.Contenders(r.ctx)
		require.Error(t, err)
	}
	_, err := r.m.Lock(none)
	require.EqualError(t, err, "zkrecipes: lock "+r.path+": nil context")
	_, err = r.m.TryLock(none)
	require.EqualError(t, err, "zkrecipes: try lock "+r.path+": nil context")
	_, err = r.m.Contenders(none)
	require.EqualError(t, err, "zkrecipes: list "+r.path+": nil context")
	require.EqualError(t, r.m.Do(none, nothing), "zkrecipes: lock "+r.path+": nil context")
	require.EqualError(t, r.m.Do(r.ctx, nil), "zkrecipes: lock "+r.path+": nil function")
	_, err = Dial(none, harness.Servers(), nil)
	require.ErrorContains(t, err, "nil context")
	l := r.lock()
	_, err = l.Commit(none)
	require.EqualError(t, err, "zkrecipes: commit under "+r.path+": nil context")
	_, _, err = l.Get(none, "/x")
	require.EqualError(t, err, "zkrecipes: get /x: nil context")
	require.Panics(t, func() { l.Context(none) })
	require.Panics(t, func() { l.Reentrant(none) })
	require.NoError(t, l.Release())

	require.NoError(t, r.c.Close())
	require.NoError(t, r.c.Close())
	_, err = r.m.Lock(r.ctx)
	require.EqualError(t, err, "zkrecipes: lock "+r.path+": client closed")
}

func TestRealB52RequestsAboveTheLimitAreRefused(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		l := held(t, r.m.Lock)
		r.p.Reset()
		path := r.path + "/big"
		// The largest request that the server accepts, and one byte more.
		fits := 1048575 - zkconn.MultiSize([]any{l.Check(), &zk.CreateRequest{Path: path, Data: []byte{}, Acl: r.c.client.ACL}})
		_, err := l.Commit(r.ctx, OpCreate(path, make([]byte, fits+1), 0, nil))
		require.EqualError(t, err, "zkrecipes: commit under "+r.path+": request of 1048576 bytes: servers accept 1048575 (jute.maxbuffer)")
		require.Empty(t, r.p.Count())
		_, err = l.Commit(r.ctx, OpCreate(path, make([]byte, fits), 0, nil))
		require.NoError(t, err, "the size is computed exactly")
		require.NoError(t, l.Err())
		require.Zero(t, r.p.CountOf("connect"), "no new connection")
		require.NoError(t, r.raw.Delete(path, -1))
		require.NoError(t, l.Release())

		big := dial(t, &Options{Identity: strings.Repeat("x", 1<<20)})
		_, err = r.ours(big, r.path).Lock(r.ctx)
		require.ErrorContains(t, err, "servers accept 1048575")
		_, err = r.ours(big, r.path+"/sibling").Contenders(r.ctx)
		require.ErrorIs(t, err, ErrUnused, "the session lives on")
	})
}

func TestB62AuthACLMeansTheUsersIDs(t *testing.T) {
	eachSide(t, func(t *testing.T, r *sideRig) {
		ctx := r.ctx
		_, err := Dial(ctx, harness.Servers(), &Options{ACL: zk.AuthACL(zk.PermAll)})
		require.ErrorContains(t, err, `Options.ACL: ACL of scheme "auth" without Options.Auth`)

		l := held(t, r.m.Lock)
		_, err = l.Commit(ctx, OpCreate(r.path+"/x", nil, 0, zk.AuthACL(zk.PermAll)))
		require.ErrorContains(t, err, `operation 0: create `+r.path+`/x: ACL of scheme "auth" without Options.Auth`)
		require.NoError(t, l.Release())

		auth := []Auth{{Scheme: "digest", Data: []byte("alice:secret")}}
		c := dial(t, &Options{Auth: auth, ACL: zk.AuthACL(zk.PermAll)})
		user := harness.Raw(t)
		require.NoError(t, user.AddAuth("digest", []byte("alice:secret")))
		path := harness.NewPath(t)
		l = held(t, r.ours(c, path).Lock)
		_, err = l.Commit(ctx, OpCreate(path+"-data", nil, 0, zk.AuthACL(zk.PermAll)))
		require.NoError(t, err)
		alices := zk.DigestACL(zk.PermAll, "alice", "secret")
		for p, want := range map[string][]zk.ACL{path: c.client.Created, path + "-data": alices} {
			acl, _, err := user.GetACL(p)
			require.NoError(t, err)
			require.Equal(t, want, acl)
			require.Equal(t, alices[0].ID, acl[0].ID)
		}
		require.NoError(t, l.Release())
		// Another session can use the znodes that this one has created.
		require.NoError(t, r.theirs(dial(t, &Options{Auth: auth}), path).Do(ctx, nothing))
	})
}

func TestB52PathsLongerThanARequestAreRefused(t *testing.T) {
	r := newRig(t, nil)
	l := r.lock()
	r.p.Reset()
	for _, n := range []int{1_048_000, 1_048_560, 1_049_000, 2_000_000} {
		path := "/" + strings.Repeat("a", n)
		_, err := NewMutex(r.c, path).Lock(r.ctx)
		require.ErrorContains(t, err, "servers accept 1048575")
		_, _, err = l.Get(r.ctx, path)
		require.ErrorContains(t, err, "servers accept 1048575")
	}
	require.Empty(t, r.p.Count())
	require.NoError(t, l.Err())
	require.NoError(t, l.Release())
}
