package line_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The signal by which a releasing holder notifies its successor.

// If another session could forge the signal, or none can send it, the lock still
// works: each waiter lists when its predecessor's place is deleted.
func TestRealB61NoSignalIsBelievedWhereItCouldBeForged(t *testing.T) {
	t.Parallel()
	super := []byte("super:secret")
	for _, tt := range []struct {
		name     string
		flag     string
		option   zktest.Option
		auth     []zkrecipes.Auth
		forge    bool // another session can set data on a place
		unsigned bool // a releasing holder sends no signal
	}{
		{"skipACL", "-Dzookeeper.skipACL=yes", zktest.SkipACL(), nil, true, false},
		{"digest authentication off", "-Dzookeeper.DigestAuthenticationProvider.enabled=false", zktest.WithoutDigest(), nil, true, true},
		{"super user", "-Dzookeeper.DigestAuthenticationProvider.superDigest=" + zkconn.DigestID(0, super), zktest.SuperDigest(zkconn.DigestID(0, super)), []zkrecipes.Auth{{Scheme: "digest", Data: super}}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := harness.OwnServer(t, zkserver.Config{JVMFlags: []string{tt.flag}}, tt.option)
			for _, side := range recipetest.Sides {
				t.Run(side.Name, func(t *testing.T) {
					ctx, path := harness.Within(t, 20*time.Second), harness.NewPath(t)
					p := harness.NewProxy(t, server)
					c := recipetest.DialTo(t, []string{p.Addr()}, &zkrecipes.Options{Auth: tt.auth})
					holder := recipetest.Held(t, side.Theirs(c, path).Lock)
					recipetest.Sleeps(t, c, 1)
					var waiters []*harness.Call[*zkrecipes.Lease]
					for _, lock := range []func(*zkrecipes.Client, string) recipetest.Locker{side.Ours, side.Theirs} {
						c := recipetest.DialTo(t, []string{p.Addr()}, &zkrecipes.Options{Auth: tt.auth})
						waiters = append(waiters, recipetest.Later(t, lock(c, path).Lock))
						recipetest.Sleeps(t, c, 2)
					}

					conn := harness.RawTo(t, []string{server})
					for _, a := range tt.auth {
						require.NoError(t, conn.AddAuth(a.Scheme, a.Data))
					}
					p.Reset()
					_, err := conn.Set(holder.Check().Path, []byte("released"), -1)
					if !tt.forge {
						require.ErrorIs(t, err, zk.ErrNoAuth)
					} else {
						require.NoError(t, err)
						// The waiter lists and watches its predecessor again. The holder
						// watches its own place again.
						harness.Eventually(t, "a listing", func() bool { return p.CountOf("getChildren2") == 1 && p.CountOf("getData") == 2 })
						require.True(t, waiters[0].Waiting(), "the signal was forged")
					}
					_, err = holder.Commit(ctx)
					require.NoError(t, err)

					// Each hand-off takes a listing.
					current := holder
					for i, leave := range []string{side.Freed, side.Release} {
						if tt.unsigned {
							leave = recipetest.OpReadRelease
						}
						p.Reset()
						require.NoError(t, current.Release())
						current = waiters[i].Get()
						require.Equal(t, 1, p.CountOf(leave))
						require.Equal(t, 1, p.CountOf("getChildren2"))
					}
					require.NoError(t, current.Release())
				})
			}
		})
	}
}

// A place is evicted, so its successor then has the same predecessor. Both waiters
// receive the predecessor's signal, but only one of them still has a place.
func TestB22AnEvictedWaiterIsNotGrantedByItsPredecessorsSignal(t *testing.T) {
	recipetest.EachSide(t, func(t *testing.T, r *recipetest.SideRig) {
		for range 10 {
			holder := recipetest.Held(t, r.Rival.Lock)
			attempts := []*harness.Call[*zkrecipes.Lease]{r.Joins(2, r.M), r.Joins(3, r.Theirs(r.C, r.Path))}
			name := r.InLine()[1].Name
			var wg sync.WaitGroup
			wg.Go(func() { r.Raw.Delete(r.Path+"/"+name, -1) })
			wg.Go(func() { holder.Release() })
			wg.Wait()
			for _, a := range attempts {
				l, err := a.Wait()
				if err != nil {
					require.ErrorIs(t, err, zkrecipes.ErrEvicted)
					require.Same(t, attempts[0], a)
					continue
				}
				if _, err := l.Commit(r.Ctx); err != nil { // granted before it was evicted
					require.ErrorIs(t, err, zkrecipes.ErrLost)
					require.Same(t, attempts[0], a)
				}
				l.Release()
			}
			r.Queued(0)
		}
	})
}

func TestB27DataSetOnAForeignPredecessorIsNoSignal(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	for _, prefix := range []string{
		"lock-", "_c_7a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d-lock-", "0f0e0d0c0b0a09080706050403020100__lock__",
	} {
		ahead := r.ByHand(prefix)
		r.P.Reset()
		a := recipetest.LockLater(t, r.M)
		r.Queued(2)
		r.Asleep(1)
		for i := range 3 {
			r.P.Reset()
			_, err := r.Raw.Set(ahead, []byte(fmt.Sprint(i)), -1)
			require.NoError(t, err)
			harness.Eventually(t, "looked again", func() bool { return r.P.CountOf("getData") == 1 && recipetest.Idle(r.C) })
			require.True(t, a.Waiting())
		}
		require.NoError(t, r.Raw.Delete(ahead, -1))
		require.NoError(t, a.Get().Release())
	}
}

func TestB47OnlyItsOwnerCanSetDataOnAPlace(t *testing.T) {
	r := recipetest.NewRig(t, nil)
	l := r.Lock()
	a := recipetest.LockLater(t, zkrecipes.NewMutex(recipetest.Dial(t, nil), r.Path))
	r.Queued(2)
	another := recipetest.Dial(t, &zkrecipes.Options{Auth: credentials(), ACL: zk.DigestACL(zk.PermAll, "app", "secret")})
	for name, conn := range map[string]*zk.Conn{"an operator": r.Raw, "a client with credentials": rawConn(another)} {
		_, err := conn.Set(l.Check().Path, []byte("__REVOKE__"), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
	}
	require.True(t, a.Waiting())
	require.NoError(t, l.Err())
	require.NoError(t, l.Release())
	require.NoError(t, a.Get().Release())
}

// That the line's ACL forbids deletions says nothing about the session's identity.
func TestIdentityIsKeptWhenOnlyTheDeletionIsRefused(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		other := w.Bare()
		_, err := other.SetACL(w.Path, zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
		require.NoError(t, err)
		require.Error(t, l.Release())
		_, err = other.SetACL(w.Path, zk.WorldACL(zk.PermAll), -1)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		s, _ := recipetest.Core(c).Session()
		require.True(t, s.IsOwner())
	})
}
