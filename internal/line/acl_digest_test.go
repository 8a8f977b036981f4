package line_test

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Servers that compute the ids of digest credentials by another algorithm than SHA-1.

// opACLProbe is the request that finds out whether the server enforces ACLs.
const opACLProbe = "multi(check,create,setData)"

// opIDProbe is the request that finds out whether the ids are right.
const opIDProbe = "multi(create,check)"

// sha256Server returns a proxy to a server with SHA-256, and a path on it.
func sha256Server(t *testing.T) (p *harness.Proxy, path string) {
	t.Helper()
	const flag = "-Dzookeeper.DigestAuthenticationProvider.digestAlg=SHA-256"
	server := harness.OwnServer(t, zkserver.Config{JVMFlags: []string{flag}}, zktest.DigestAlgorithm(crypto.SHA256))
	path = harness.NewPath(t)
	harness.MakeParents(t, harness.RawTo(t, []string{server}), path)
	return harness.NewProxy(t, server), path
}

func credentials() []zkrecipes.Auth {
	return []zkrecipes.Auth{{Scheme: "digest", Data: []byte("app:secret")}}
}

func TestRealB71AWrongDigestAlgorithmIsAnErrorAndLeavesNothing(t *testing.T) {
	t.Parallel()
	p, path := sha256Server(t)
	ctx := harness.Within(t, 30*time.Second)
	raw := harness.RawTo(t, []string{p.Addr()})
	creates := map[string]func(c *zkrecipes.Client) error{
		"lock": func(c *zkrecipes.Client) error {
			return zkrecipes.NewMutex(c, path+"/lock").Do(ctx, recipetest.Nothing)
		},
		"try lock": func(c *zkrecipes.Client) error {
			_, err := zkrecipes.NewRWLock(c, path+"/try").TryLock(ctx)
			return err
		},
		"shut a gate": func(c *zkrecipes.Client) error { return zkrecipes.NewGate(c, path+"/gate").Shut(ctx) },
		"barrier": func(c *zkrecipes.Client) error {
			_, err := zkrecipes.NewBarrier(c, path+"/barrier", 1).Wait(ctx)
			return err
		},
		"double barrier": func(c *zkrecipes.Client) error {
			_, err := zkrecipes.NewDoubleBarrier(c, path+"/double", 1).Enter(ctx)
			return err
		},
		"put": func(c *zkrecipes.Client) error {
			_, err := zkrecipes.NewQueue(c, path+"/queue", nil).Put(ctx, []byte("x"))
			return err
		},
		"take": func(c *zkrecipes.Client) error {
			_, err := zkrecipes.NewQueue(c, path+"/queue", nil).Take(ctx)
			return err
		},
	}
	for name, create := range creates {
		t.Run(name, func(t *testing.T) {
			c := recipetest.DialTo(t, []string{p.Addr()}, &zkrecipes.Options{Auth: credentials()})
			p.Reset()
			for range 2 {
				require.ErrorContains(t, create(c), "Options.DigestAlgorithm: the server computes")
			}
			require.Equal(t, 1, p.Count()[opIDProbe], "one probe a session")
			require.Empty(t, harness.Children(t, raw, path))
		})
	}
	t.Run("a round that others have made", func(t *testing.T) {
		path := path + "/round"
		open := recipetest.DialTo(t, []string{p.Addr()}, nil)
		first := harness.Go(t, func(ctx context.Context) (int, error) { return zkrecipes.NewBarrier(open, path, 2).Wait(ctx) })
		recipetest.Sleeps(t, open, 1)
		_, err := zkrecipes.NewBarrier(recipetest.DialTo(t, []string{p.Addr()}, &zkrecipes.Options{Auth: credentials()}), path, 2).Wait(ctx)
		require.ErrorContains(t, err, "Options.DigestAlgorithm: the server computes")
		require.True(t, first.Waiting())
	})
	t.Run("commit", func(t *testing.T) {
		c := recipetest.DialTo(t, []string{p.Addr()}, &zkrecipes.Options{Auth: credentials(), ACL: zk.WorldACL(zk.PermAll)})
		l := recipetest.Held(t, zkrecipes.NewMutex(c, path+"/lock").Lock)
		p.Reset()
		_, err := l.Commit(ctx, zkrecipes.OpCreate(path+"/open", nil, 0, nil))
		require.NoError(t, err)
		require.Zero(t, p.Count()[opIDProbe], "the ACL does not rest on the ids")
		_, err = l.Commit(ctx, zkrecipes.OpCreate(path+"/mine", nil, 0, zk.AuthACL(zk.PermAll)))
		require.ErrorContains(t, err, "Options.DigestAlgorithm: the server computes")
		require.NotContains(t, harness.Children(t, raw, path), "mine")
		require.NoError(t, l.Release())
	})
}

// The library's own identity, too, has the id by which the server knows it: a release
// takes one request, and its successor is granted on the signal.
func TestRealB71WithTheServersDigestAlgorithmCredentialsWork(t *testing.T) {
	t.Parallel()
	p, path := sha256Server(t)
	ctx := harness.Within(t, 30*time.Second)
	opts := &zkrecipes.Options{Auth: credentials(), DigestAlgorithm: crypto.SHA256}
	path += "/line"
	c, other := recipetest.DialTo(t, []string{p.Addr()}, opts), recipetest.DialTo(t, []string{p.Addr()}, opts)
	require.NoError(t, zkrecipes.NewMutex(c, path).Do(ctx, recipetest.Nothing))
	require.Equal(t, 1, p.Count()[opIDProbe], "one probe a session")
	p.Reset()
	require.NoError(t, zkrecipes.NewMutex(c, path).Do(ctx, recipetest.Nothing))
	require.Equal(t, 1, p.CountOf(recipetest.OpRelease))
	require.Equal(t, 2, recipetest.Sum(p.Count()))

	l := recipetest.Held(t, zkrecipes.NewMutex(c, path).Lock)
	a := recipetest.Later(t, zkrecipes.NewMutex(other, path).Lock)
	recipetest.Sleeps(t, other, 2)
	p.Reset()
	require.NoError(t, l.Release())
	next := a.Get()
	require.Equal(t, 1, recipetest.Sum(p.Count()), "the release")
	require.NoError(t, next.Release())

	raw := harness.RawTo(t, []string{p.Addr()})
	_, _, err := raw.Get(path)
	require.ErrorIs(t, err, zk.ErrNoAuth, "the line is the creator's")
}

func TestB71WithoutAuthAWrongDigestAlgorithmDoesNoHarm(t *testing.T) {
	t.Parallel()
	p, path := sha256Server(t)
	ctx := harness.Within(t, 30*time.Second)
	c, other := recipetest.DialTo(t, []string{p.Addr()}, nil), recipetest.DialTo(t, []string{p.Addr()}, nil)
	l := recipetest.Held(t, zkrecipes.NewMutex(c, path).Lock)
	a := recipetest.Later(t, zkrecipes.NewMutex(other, path).Lock)
	recipetest.Sleeps(t, other, 2)
	require.NoError(t, l.Release())
	require.NoError(t, a.Get().Release())
	require.Zero(t, p.Count()[opIDProbe])

	p.Reset()
	require.NoError(t, zkrecipes.NewMutex(c, path).Do(ctx, recipetest.Nothing))
	require.Equal(t, 2, recipetest.Sum(p.Count()), "only the first signal was tried")

	q := zkrecipes.NewQueue(recipetest.DialTo(t, []string{p.Addr()}, nil), path+"-queue", nil)
	_, err := q.Put(ctx, []byte("x"))
	require.NoError(t, err)
	item, err := zkrecipes.NewQueue(other, path+"-queue", nil).Take(ctx)
	require.NoError(t, err)
	require.NoError(t, item.Ack(ctx))

	b := harness.Go(t, func(ctx context.Context) (int, error) { return zkrecipes.NewBarrier(c, path+"-barrier", 2).Wait(ctx) })
	_, err = zkrecipes.NewBarrier(other, path+"-barrier", 2).Wait(ctx)
	require.NoError(t, err)
	b.Get()
}

// A session that knows that its ids are wrong, and one that does not know it yet and makes
// what nobody may write.
func TestB71WithoutAuthSessionsThatKnowTheAlgorithmAndThatDoNotShareAPath(t *testing.T) {
	t.Parallel()
	uses := map[string]func(ctx context.Context, c *zkrecipes.Client, path string) error{
		"mutex": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			return zkrecipes.NewMutex(c, path).Do(ctx, recipetest.Nothing)
		},
		"reader": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			return zkrecipes.NewRWLock(c, path).RDo(ctx, recipetest.Nothing)
		},
		"semaphore": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			x := zkrecipes.NewSemaphore(c, path, 2)
			l, err := x.Acquire(ctx)
			if err == nil {
				err = cmp.Or(x.Resize(ctx, 2), l.Release())
			}
			return err
		},
		"try a semaphore": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			l, err := zkrecipes.NewSemaphore(c, path, 2).TryAcquire(ctx)
			if err == nil {
				err = l.Release()
			} else if errors.Is(err, zkrecipes.ErrLocked) {
				err = nil
			}
			return err
		},
		"barrier": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			_, err := zkrecipes.NewBarrier(c, path, 1).Wait(ctx)
			return err
		},
		"double barrier": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			v, err := zkrecipes.NewDoubleBarrier(c, path, 1).Enter(ctx)
			if err == nil {
				err = v.Leave(ctx)
			}
			return err
		},
		"gate": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			g := zkrecipes.NewGate(c, path)
			return cmp.Or(g.Shut(ctx), g.Open(ctx))
		},
		"election": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			term, err := zkrecipes.NewElection(c, path).Campaign(ctx, []byte("x"))
			if err == nil {
				err = term.Resign()
			}
			return err
		},
		"queue": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			q := zkrecipes.NewQueue(c, path, &zkrecipes.QueueOptions{MaxLen: 5})
			if _, err := q.Put(ctx, []byte("x")); err != nil {
				return err
			}
			item, err := q.Take(ctx)
			if err == nil {
				err = item.Ack(ctx)
			}
			return err
		},
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, path := sha256Server(t)
			knows := recipetest.DialTo(t, []string{p.Addr()}, nil)
			knowsItsIDsAreWrong(t, knows)
			for i := range 8 {
				other, path := recipetest.DialTo(t, []string{p.Addr()}, nil), fmt.Sprint(path, i)
				a := harness.Go(t, func(ctx context.Context) (struct{}, error) { return struct{}{}, use(ctx, other, path) })
				time.Sleep(time.Duration(i) * 300 * time.Microsecond)
				require.NoError(t, use(harness.Within(t, 30*time.Second), knows, path))
				a.Get()
			}
		})
	}
	t.Run("a round that nobody may write", func(t *testing.T) {
		t.Parallel()
		p, path := sha256Server(t)
		path += "/barrier"
		knows := recipetest.DialTo(t, []string{p.Addr()}, nil)
		knowsItsIDsAreWrong(t, knows)
		raw := harness.RawTo(t, []string{p.Addr()})
		for _, at := range []string{"", "/round", "/round/ready", "/round/ready/signal-of1"} {
			data := map[string]string{"": "1"}[at]
			_, err := raw.Create(path+at, []byte(data), 0, recipetest.Core(knows).Created)
			require.NoError(t, err)
		}
		_, err := zkrecipes.NewBarrier(knows, path, 1).Wait(harness.Within(t, 30*time.Second))
		require.NoError(t, err)
	})
}

// knowsItsIDsAreWrong lets a client's session find out.
func knowsItsIDsAreWrong(t *testing.T, c *zkrecipes.Client) {
	t.Helper()
	s, err := recipetest.Core(c).Live(t.Context())
	require.NoError(t, err)
	s.OwnWriteFailed(zk.ErrNoAuth)
	require.False(t, s.IsOwner())
}

// On a server with SHA-1, the option makes the same mistake.
func TestRealB71AnAlgorithmThatTheServerDoesNotHaveIsAnError(t *testing.T) {
	path := harness.NewPath(t)
	harness.MakeParents(t, harness.Raw(t), path)
	for _, algorithm := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256} {
		c := recipetest.Dial(t, &zkrecipes.Options{Auth: credentials(), DigestAlgorithm: algorithm})
		err := zkrecipes.NewMutex(c, path+"/line").Do(harness.Within(t, 20*time.Second), recipetest.Nothing)
		require.ErrorContains(t, err, "Options.DigestAlgorithm")
	}
	c := recipetest.Dial(t, &zkrecipes.Options{Auth: credentials(), DigestAlgorithm: crypto.SHA1})
	require.NoError(t, zkrecipes.NewMutex(c, path+"/line").Do(harness.Within(t, 20*time.Second), recipetest.Nothing))
}
