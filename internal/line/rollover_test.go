package line_test

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The end of a line's sequence counter. There ZooKeeper assigns the same number again and
// again, and negative ones to creates in flight together. Nobody holds with such a number:
// everybody steps aside until the line is empty, and goes on in a new line.

type calls = []*harness.Call[*zkrecipes.Lease]

// beside has a rival of c hold with the last number, so that c waits aside.
func beside(w *recipetest.SideWorld, c *zkrecipes.Client) (rival *zkrecipes.Client, holder *zkrecipes.Lease, a *harness.Call[*zkrecipes.Lease]) {
	w.T.Helper()
	rival = w.Client(nil)
	require.NoError(w.T, w.Srv.SetCounter(w.Path, line.MaxNumber))
	holder = w.Excludes(rival)
	return rival, holder, w.Aside(c)
}

func TestAFreeLineIsUsedUpToTheLimitAndBeginsAnew(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, last := w.Client(nil), zkrecipes.Token(0)
		for name, lock := range map[string]func(context.Context) (*zkrecipes.Lease, error){"Lock": w.Ours(c, w.Path).Lock, "TryLock": w.Ours(c, w.Path).TryLock} {
			require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber-1))
			for _, number := range []int32{line.MaxNumber - 1, line.MaxNumber, 1, 2} {
				var l *zkrecipes.Lease
				requests := w.Requests(func() { l = recipetest.Held(t, lock) })
				require.Equal(t, number, w.Line()[0].Number, name)
				require.Greater(t, l.Token(), last)
				if number == 1 {
					require.Equal(t, 2, requests[recipetest.OpJoin], "%s: %v", name, requests)
					require.Equal(t, 2, requests[recipetest.OpDelete], "%s: %v", name, requests)
				}
				last = l.Token()
				require.NoError(t, l.Release())
			}
		}
	})
}

// numbered counts the numbers of the places that are created in /line.
type numbered map[int32]int

func (n numbered) option() zktest.Option {
	return zktest.OnChange(func(ch zktest.Change) {
		if name, ok := strings.CutPrefix(ch.Path, "/line/"); ok && ch.Created {
			if m, ok := layout.ParsePlace(name, layout.LockKinds); ok {
				n[m.Number]++
			}
		}
	})
}

// The joins queue up behind the first one, and the server prepares them together.
func TestNegativeSequenceNumbersAreNeverGranted(t *testing.T) {
	for name, held := range map[string]bool{"free": false, "held": true} {
		t.Run(name, func(t *testing.T) {
			numbers := numbered{}
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c := w.Client(nil)
				var holder *zkrecipes.Lease
				if held {
					holder = w.Excludes(w.Client(nil))
				}
				require.NoError(t, w.Srv.SetCounter(w.Path, math.MaxInt32))
				clear(numbers)
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpJoin, For: time.Second})
				var joins calls
				for range 20 {
					joins = append(joins, recipetest.Later(t, w.Ours(c, w.Path).Lock))
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Negative(t, slices.Min(slices.Collect(maps.Keys(numbers))))
				if held {
					require.Len(t, w.Line(), 1)
					w.Stands(holder)
					require.NoError(t, holder.Release())
				}
				w.Served(joins...)
				require.Empty(t, w.Line())
			}, numbers.option())
		})
	}
}

// The caller is there, or has left before the reply comes: then the background gives the
// place up.
func TestAJoinBeyondTheLimitWhoseReplyIsLostOrLateIsNotGranted(t *testing.T) {
	for name, fault := range map[string]zktest.Fault{
		"reply is lost":                  {Do: zktest.Drop},
		"caller has left":                {Do: zktest.Delay, For: time.Second},
		"caller has left, reply is lost": {Do: zktest.Delay, For: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c := w.Client(nil)
				require.NoError(t, w.Srv.SetCounter(w.Path, math.MaxInt32))
				fault.After, fault.Op = true, recipetest.OpJoin
				w.Plan.Add(fault, zktest.Fault{Do: zktest.Drop, Op: recipetest.OpDelete})
				a := w.Waits(c)
				if fault.Do == zktest.Delay {
					a.Cancel(nil)
					_, err := a.Wait()
					require.ErrorIs(t, err, context.Canceled)
					if strings.HasSuffix(name, "lost") {
						require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
					}
					time.Sleep(4 * time.Second)
					synctest.Wait()
					require.Empty(t, w.Line())
					a = w.Waits(c)
				}
				time.Sleep(time.Second)
				w.Served(a)
				require.Equal(t, 1, w.Plan.Fired()["drop before"])
			})
		})
	}
}

func TestThoseWhoComeBeyondTheLimitWaitUntilTheLineIsEmpty(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c, other, third := w.Client(nil), w.Client(nil), w.Client(nil)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber-1))
		holder := w.Excludes(c)
		inLine := w.Waits(other)
		aside := calls{w.Aside(c), w.Aside(other), w.Aside(third), w.Aside(third)}
		_, err := w.Ours(third, w.Path).TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)

		var l *zkrecipes.Lease
		requests := w.Requests(func() {
			require.NoError(t, holder.Release())
			l = inLine.Get()
		})
		if w.Signalled() {
			require.Equal(t, 1, recipetest.Sum(requests), "the release: those aside watch the last member only")
		}
		w.Stands(l)
		require.Len(t, w.Line(), 1, "those aside wait on")
		for _, a := range aside {
			require.True(t, a.Waiting())
		}
		require.NoError(t, l.Release())
		w.Served(aside...)
		require.Empty(t, w.Line())
		recipetest.RequireUsable(t, c)
	})
}

func TestASessionThatEndsAsideGoesOnInTheNext(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		rival, _, a := beside(w, c)
		w.Expire(c)
		require.True(t, a.Waiting())
		require.Len(t, w.Line(), 1)
		another := w.Aside(w.Stranger(nil))
		require.True(t, w.Srv.Expire(recipetest.SessionID(rival)))
		w.Served(a, another)
	})
}

func TestAContextThatEndsAsideLeavesNothingBehind(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		c := w.Client(nil)
		_, holder, a := beside(w, c)
		a.Cancel(nil)
		_, err := a.Wait()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, zkrecipes.ErrExhausted)
		for after := range 20 { // at each moment on the way there
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(after)*time.Millisecond)
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Path: w.Path + "*", For: 2 * time.Millisecond, Times: 8})
			_, err := w.Ours(c, w.Path).Lock(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(time.Second)
		}
		require.Len(t, w.Line(), 1)
		require.LessOrEqual(t, len(w.SessionOf(c).Watches), 1, "all share the watch on the holder's place")
		require.NoError(t, holder.Release())
		synctest.Wait()
		require.Empty(t, w.Line())
		require.Empty(t, w.SessionOf(c).Watches)
	})
}

func TestPlacesOfOtherLibrariesAreWaitedForAside(t *testing.T) {
	recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		for _, foreign := range []string{w.By, "fedcba98765432100123456789abcdef__lock__"} { // kazoo's
			c, conn := w.Client(nil), w.Bare()
			require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber))
			var places []string
			for range 2 { // other libraries know no limit
				place, err := conn.Create(w.Path+"/"+foreign, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
				places = append(places, place)
			}
			a := w.Aside(c)
			_, err := conn.Set(places[1], []byte("x"), -1)
			require.NoError(t, err)
			for _, place := range places {
				synctest.Wait()
				require.True(t, a.Waiting())
				require.NoError(t, conn.Delete(place, -1))
			}
			w.Served(a)
		}
	})
}

func TestReadersStepAsideToo(t *testing.T) {
	recipetest.InRWBubble(t, func(t *testing.T, w *recipetest.RWWorld) {
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber-1))
		first, second := recipetest.Held(t, w.TheirLock.RLock), recipetest.Held(t, w.TheirLock.RLock)
		_, err := w.OurLock.TryRLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked, "only readers hold, but nobody joins them")
		aside := calls{w.MustWait(w.OurLock.RLock), w.MustWait(w.TheirLock.RLock), w.MustWait(w.OurLock.Lock)}
		require.Len(t, w.Line(), 2)
		require.NoError(t, second.Release())
		synctest.Wait()
		for _, a := range aside {
			require.True(t, a.Waiting())
		}
		require.NoError(t, first.Release())
		(&recipetest.SideWorld{World: w.World}).Served(aside...)
		require.Empty(t, w.Line())
	})
}

// A line cannot begin anew that holds what is no place, or that may not be deleted.
func TestALineThatCannotBeDeletedIsAnError(t *testing.T) {
	for name, prevent := range map[string]func(conn *zk.Conn, path string) (why string, err error){
		"a child": func(conn *zk.Conn, path string) (string, error) {
			_, err := conn.Create(path+"/config", nil, 0, zk.WorldACL(zk.PermAll))
			return `"config" stands in it`, err
		},
		"no permission": func(conn *zk.Conn, path string) (string, error) {
			_, err := conn.SetACL("/locks", zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
			return zk.ErrNoAuth.Error(), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.EachSideInBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				conn := w.OnPath("/locks/line")
				c := w.Client(nil)
				why, err := prevent(conn, w.Path)
				require.NoError(t, err)
				_, holder, a := beside(w, c)
				require.NoError(t, holder.Release())
				requests := w.Requests(func() {
					for _, lock := range []func(context.Context) (*zkrecipes.Lease, error){
						func(context.Context) (*zkrecipes.Lease, error) { return a.Wait() }, w.Ours(c, w.Path).Lock, w.Ours(c, w.Path).TryLock,
					} {
						_, err := lock(t.Context())
						require.ErrorIs(t, err, zkrecipes.ErrExhausted)
						require.ErrorContains(t, err, why)
					}
				})
				require.LessOrEqual(t, recipetest.Sum(requests), 20, "they do not try again and again")
				require.Empty(t, w.Line())
			})
		})
	}
}

// The place beyond the limit, too, may be one that cannot be deleted.
func TestAnExhaustedPlaceThatCannotBeDeletedIsAnError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		require.NoError(t, w.Srv.SetCounter(w.Path, line.MaxNumber+1))
		_, err := w.Bare().SetACL(w.Path, zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
		require.NoError(t, err)
		_, err = zkrecipes.NewMutex(c, w.Path).Lock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrExhausted)
		require.ErrorIs(t, err, zk.ErrNoAuth)
	})
}

// The new znode has the version of the line, as any fresh znode has that of another library's line.
func TestALineThatIsReplacedDuringAnOutageBeforeItsDeletionIsNotDeleted(t *testing.T) {
	recipetest.Sides[0].InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
		link, conn := harness.NewLink(w.Srv), w.Bare()
		c := w.Stranger(&zkrecipes.Options{Dialer: link.Dial})
		use(t, c, w.Path)
		w.AtLimit()
		var a *harness.Call[*zkrecipes.Lease]
		w.AwayBehindTheReplyTo(c, link, "getChildren2", w.Path, func() { a = w.Waits(c) }, func() {
			_, line, err := conn.Get(w.Path)
			require.NoError(t, err)
			require.NoError(t, conn.Delete(w.Path, -1))
			_, err = conn.Create(w.Path, []byte("precious"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			for range line.Version {
				_, err = conn.Set(w.Path, []byte("precious"), -1)
				require.NoError(t, err)
			}
		})
		_, err := a.Wait()
		require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
		require.Equal(t, "precious", w.Text(w.Path))
	})
}

// What the line becomes between the listing and the deletion is not deleted.
func TestALineThatChangesBeforeItsDeletionIsNotDeleted(t *testing.T) {
	const pause = 5 * time.Second
	for name, change := range map[string]func(t *testing.T, w *recipetest.SideWorld, conn *zk.Conn) (check func(a *harness.Call[*zkrecipes.Lease])){
		"another library joins": func(t *testing.T, w *recipetest.SideWorld, conn *zk.Conn) func(*harness.Call[*zkrecipes.Lease]) {
			place, err := conn.Create(w.Path+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			return func(a *harness.Call[*zkrecipes.Lease]) {
				require.True(t, a.Waiting())
				require.NoError(t, conn.Delete(place, -1))
				w.Served(a)
			}
		},
		"another client begins it anew": func(t *testing.T, w *recipetest.SideWorld, conn *zk.Conn) func(*harness.Call[*zkrecipes.Lease]) {
			l := w.Excludes(w.Stranger(nil))
			require.EqualValues(t, 1, w.Line()[0].Number)
			return func(a *harness.Call[*zkrecipes.Lease]) {
				require.True(t, a.Waiting())
				require.Len(t, w.Line(), 2, "it has joined the new line")
				require.NoError(t, l.Release())
				w.Served(a)
			}
		},
		"somebody puts data there": func(t *testing.T, w *recipetest.SideWorld, conn *zk.Conn) func(*harness.Call[*zkrecipes.Lease]) {
			require.NoError(t, conn.Delete(w.Path, -1))
			_, err := conn.Create(w.Path, []byte("precious"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			return func(a *harness.Call[*zkrecipes.Lease]) {
				_, err := a.Wait()
				require.ErrorIs(t, err, zkrecipes.ErrPathInUse)
				require.Equal(t, "precious", w.Text(w.Path))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.Sides[0].InBubble(t, func(t *testing.T, w *recipetest.SideWorld) {
				c, conn := w.Client(nil), w.Bare()
				w.AtLimit()
				w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpDelete, Path: w.Path, For: pause})
				a := w.Waits(c)
				check := change(t, w, conn)
				time.Sleep(2 * pause)
				check(a)
				require.Equal(t, 1, w.Plan.Fired()["delay before"], "%v", w.Plan.Fired())
			})
		})
	}
}
