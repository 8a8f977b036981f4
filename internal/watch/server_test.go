package watch_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// Watches and groups on the shared server, which may be a real one.

func TestRealWatchesSurviveALostConnectionAndTheEndOfTheirSession(t *testing.T) {
	path, raw, p := harness.NewPath(t), harness.Raw(t), harness.NewProxy(t, harness.Server())
	harness.MakeParents(t, raw, path)
	path += "/config"
	c := recipetest.DialTo(t, []string{p.Addr()}, &zkrecipes.Options{SessionTimeout: 8 * time.Second})
	data := recipetest.Yields(t, func(ctx context.Context) iter.Seq2[zkrecipes.Node, error] { return c.Watch(ctx, path) }, func(n zkrecipes.Node) string {
		if n.None() {
			return "none"
		}
		return string(n.Data)
	})
	names := recipetest.Yields(t, func(ctx context.Context) iter.Seq2[zkrecipes.Children, error] { return c.WatchChildren(ctx, path) }, func(n zkrecipes.Children) string {
		return fmt.Sprint(n.None(), n.Names)
	})
	data("none")
	names("true []")
	require.NoError(t, create(raw, path, "1"))
	data("1")
	names("false []")
	require.NoError(t, create(raw, path+"/a", ""))
	names("false [a]")
	p.Drop() // it reconnects
	_, err := raw.Set(path, []byte("2"), -1)
	require.NoError(t, err)
	data("2")
	recipetest.LockOn(t, zkrecipes.NewMutex(c, path+"-lock"))
	p.Refuse(true)
	p.Drop()
	harness.Eventually(t, "the session's end", func() bool { return len(harness.Children(t, raw, path+"-lock")) == 0 })
	require.NoError(t, raw.Delete(path+"/a", -1))
	require.NoError(t, raw.Delete(path, -1))
	require.NoError(t, create(raw, path, "3"))
	p.Refuse(false)
	data("3")
	names("false []")
	got, stat, err := c.Get(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, "3", string(got))
	same, err := c.Exists(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, stat, same)
	_, _, err = c.Children(t.Context(), path+"/a")
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.NoError(t, raw.Delete(path, -1))
	data("none")
	names("true []")
}

func TestRealAGroupsMemberIsBackInTheNextSession(t *testing.T) {
	path, p := harness.NewPath(t), harness.NewProxy(t, harness.Server())
	c := recipetest.DialTo(t, []string{p.Addr()}, &zkrecipes.Options{SessionTimeout: 8 * time.Second})
	watcher := zkrecipes.NewGroup(recipetest.Dial(t, nil), path)
	members := recipetest.Yields(t, watcher.Watch, recipetest.TextOf)
	members("")
	m, err := zkrecipes.NewGroup(c, path).Join(harness.Within(t, 2*time.Minute), []byte("x"), zkrecipes.MemberID("1"))
	require.NoError(t, err)
	members("1=x")
	require.NoError(t, m.Update(t.Context(), []byte("x2")))
	members("1=x2")
	p.Refuse(true)
	p.Drop()
	members("")
	p.Refuse(false)
	members("1=x2")
	present, err := watcher.Members(t.Context())
	require.NoError(t, err)
	require.Equal(t, recipetest.SessionID(c), present[0].Session)
	require.NoError(t, m.Leave())
	members("")
}

func TestRealATreeIsFollowedThroughALostConnectionAndTheEndOfItsSession(t *testing.T) {
	root, raw, p := harness.NewPath(t), harness.Raw(t), harness.NewProxy(t, harness.Server())
	harness.MakeParents(t, raw, root+"/x")
	c := recipetest.DialTo(t, []string{p.Addr()}, &zkrecipes.Options{SessionTimeout: 8 * time.Second})
	m := &mirror{t: t, nodes: map[string]zkrecipes.Node{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for changed, err := range c.WatchTree(ctx, root, nil) {
			m.note(changed, err)
		}
	}()
	defer func() { cancel(); <-done }()
	r := rand.New(rand.NewPCG(1, 2))
	agrees := func() {
		t.Helper()
		harness.Eventually(t, "the copy of the tree", func() bool { return m.text() == treeOf(t, raw, root) })
	}
	agrees()
	for range 5 {
		for range 200 {
			change(r, raw, root)
		}
		agrees()
		p.Drop()
		for range 200 {
			change(r, raw, root)
		}
		agrees()
	}
	recipetest.LockOn(t, zkrecipes.NewMutex(c, root+"-lock"))
	p.Refuse(true)
	p.Drop()
	harness.Eventually(t, "the session's end", func() bool { return len(harness.Children(t, raw, root+"-lock")) == 0 })
	for range 200 {
		change(r, raw, root)
	}
	p.Refuse(false)
	agrees()
	require.NoError(t, m.failure())
}
