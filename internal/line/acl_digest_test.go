package line_test

import (
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

// opIDProbe is the request that finds out whether the ids are right.
const opIDProbe = "multi(create,check)"

const wrongAlgorithm = "Options.DigestAlgorithm: the server computes"

// auth returns digest credentials.
func auth(secrets ...string) (all []zkrecipes.Auth) {
	for _, secret := range secrets {
		all = append(all, zkrecipes.Auth{Scheme: "digest", Data: []byte(secret)})
	}
	return all
}

// sha256Server returns a proxy to a server with SHA-256, and a path on it.
func sha256Server(t *testing.T) (p *harness.Proxy, path string) {
	t.Helper()
	const flag = "-Dzookeeper.DigestAuthenticationProvider.digestAlg=SHA-256"
	server := harness.OwnServer(t, zkserver.Config{JVMFlags: []string{flag}}, zktest.DigestAlgorithm(crypto.SHA256))
	path = harness.NewPath(t)
	harness.MakeParents(t, harness.RawTo(t, []string{server}), path)
	return harness.NewProxy(t, server), path
}

// B71
func TestRealAWrongDigestAlgorithmIsAnErrorAndLeavesNothing(t *testing.T) {
	t.Parallel()
	p, path := sha256Server(t)
	ctx := harness.Within(t, 2*time.Minute)
	raw := harness.RawTo(t, []string{p.Addr()})
	dial := func(opts zkrecipes.Options) *zkrecipes.Client { return recipetest.DialTo(t, []string{p.Addr()}, &opts) }
	for name, use := range recipetest.Recipes {
		t.Run(name, func(t *testing.T) {
			c := dial(zkrecipes.Options{Auth: auth("app:secret")})
			p.Reset()
			for range 2 {
				_, err := use(ctx, c, path+"/recipe")
				require.ErrorContains(t, err, wrongAlgorithm)
			}
			require.Equal(t, 1, p.Count()[opIDProbe], "one probe a session")
			require.Empty(t, harness.Children(t, raw, path))
		})
	}
	t.Run("a round that others have made", func(t *testing.T) {
		path := path + "/round"
		open := dial(zkrecipes.Options{})
		first := harness.Go(t, func(ctx context.Context) (int, error) { return zkrecipes.NewBarrier(open, path, 2).Wait(ctx) })
		recipetest.Sleeps(t, open, 1)
		_, err := zkrecipes.NewBarrier(dial(zkrecipes.Options{Auth: auth("app:secret")}), path, 2).Wait(ctx)
		require.ErrorContains(t, err, wrongAlgorithm)
		require.True(t, first.Waiting())
	})
	t.Run("commit", func(t *testing.T) {
		l := recipetest.LockOn(t, zkrecipes.NewMutex(dial(zkrecipes.Options{Auth: auth("app:secret"), ACL: zk.WorldACL(zk.PermAll)}), path+"/lock"))
		p.Reset()
		_, err := l.Commit(ctx, zkrecipes.OpCreate(path+"/open", nil, 0, nil))
		require.NoError(t, err)
		require.Zero(t, p.Count()[opIDProbe], "the ACL does not rest on the ids")
		_, err = l.Commit(ctx, zkrecipes.OpCreate(path+"/mine", nil, 0, zk.AuthACL(zk.PermAll)))
		require.ErrorContains(t, err, wrongAlgorithm)
		require.NotContains(t, harness.Children(t, raw, path), "mine")
		require.NoError(t, l.Release())
	})
}

// B71: The library's own identity, too, has the id by which the server knows it: a release
// takes one request, and its successor is granted on the signal.
func TestRealWithTheServersDigestAlgorithmCredentialsWork(t *testing.T) {
	t.Parallel()
	p, path := sha256Server(t)
	path += "/line"
	opts := &zkrecipes.Options{Auth: auth("app:secret"), DigestAlgorithm: crypto.SHA256}
	c, other := recipetest.DialTo(t, []string{p.Addr()}, opts), recipetest.DialTo(t, []string{p.Addr()}, opts)
	m := zkrecipes.NewMutex(c, path)
	require.NoError(t, m.Do(harness.Within(t, 2*time.Minute), recipetest.Nothing))
	require.Equal(t, 1, p.Count()[opIDProbe], "one probe a session")

	l := recipetest.LockOn(t, m)
	a := recipetest.LockLater(t, zkrecipes.NewMutex(other, path))
	recipetest.Sleeps(t, other, 2)
	p.Reset()
	require.NoError(t, l.Release())
	next := a.Get()
	require.Equal(t, map[string]int{recipetest.OpRelease: 1}, p.Count())
	require.NoError(t, next.Release())

	_, _, err := harness.RawTo(t, []string{p.Addr()}).Get(path)
	require.ErrorIs(t, err, zk.ErrNoAuth, "the line is the creator's")
}

// B71: On a server with SHA-1, the option makes the same mistake.
func TestRealAnAlgorithmThatTheServerDoesNotHaveIsAnError(t *testing.T) {
	path := harness.NewPath(t)
	harness.MakeParents(t, harness.Raw(t), path)
	use := func(algorithm crypto.Hash) error {
		c := recipetest.Dial(t, &zkrecipes.Options{Auth: auth("app:secret"), DigestAlgorithm: algorithm})
		return zkrecipes.NewMutex(c, path+"/line").Do(harness.Within(t, 2*time.Minute), recipetest.Nothing)
	}
	for _, algorithm := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA3_256} {
		require.ErrorContains(t, use(algorithm), "Options.DigestAlgorithm")
	}
	require.NoError(t, use(crypto.SHA1))
}

// B71
func TestWithoutAuthAWrongDigestAlgorithmDoesNoHarm(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c, other := w.Stranger(nil), w.Stranger(nil)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		a := w.LockLater(other)
		require.NoError(t, l.Release())
		require.NoError(t, a.Get().Release())
		require.Zero(t, w.Srv.Counts().Requests[opIDProbe])
		again := w.Requests(func() { require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(t.Context(), recipetest.Nothing)) })
		require.Equal(t, 2, recipetest.Sum(again), "only the first signal was tried")
	}, zktest.DigestAlgorithm(crypto.SHA256))
}

// B71: A session that knows that its ids are wrong, and one that does not know it yet and makes
// what nobody may write.
func TestWithoutAuthSessionsThatKnowTheAlgorithmAndThatDoNotShareAPath(t *testing.T) {
	knowing := func(t *testing.T, w *recipetest.World) *zkrecipes.Client {
		c := w.Stranger(nil)
		s, _ := recipetest.Core(c).Session()
		s.OwnWriteFailed(zk.ErrNoAuth)
		require.False(t, s.IsOwner())
		return c
	}
	uses := map[string]func(context.Context, *zkrecipes.Client, string) error{
		"resize": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			return zkrecipes.NewSemaphore(c, path, 2).Resize(ctx, 2)
		},
		"try a semaphore": func(ctx context.Context, c *zkrecipes.Client, path string) error {
			l, err := zkrecipes.NewSemaphore(c, path, 2).TryAcquire(ctx)
			switch {
			case errors.Is(err, zkrecipes.ErrLocked):
				return nil
			case err != nil:
				return err
			}
			return l.Release()
		},
	}
	for recipe := range recipetest.Recipes {
		uses[recipe] = func(ctx context.Context, c *zkrecipes.Client, path string) error {
			return recipetest.UseOnce(ctx, recipe, c, path)
		}
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				knows := knowing(t, w)
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, For: time.Millisecond, Times: -1})
				for i := range 16 {
					other, path := w.Stranger(nil), fmt.Sprint("/path", i)
					a := harness.GoErr(t, func(ctx context.Context) error { return use(ctx, other, path) })
					time.Sleep(time.Duration(i) * 700 * time.Microsecond)
					require.NoError(t, use(harness.Within(t, time.Minute), knows, path))
					a.Get()
				}
			}, zktest.DigestAlgorithm(crypto.SHA256))
		})
	}
	t.Run("a round that nobody may write", func(t *testing.T) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			knows, raw := knowing(t, w), w.Bare()
			for _, at := range []string{"", "/round", "/round/ready", "/round/ready/signal-of1"} {
				data := map[string]string{"": "1"}[at]
				_, err := raw.Create(w.Path+at, []byte(data), 0, recipetest.Core(knows).Created)
				require.NoError(t, err)
			}
			_, err := zkrecipes.NewBarrier(knows, w.Path, 1).Wait(t.Context())
			require.NoError(t, err)
		}, zktest.DigestAlgorithm(crypto.SHA256))
	})
}
