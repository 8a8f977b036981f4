package line_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The Client deletes what it has created once that has been idle. In these tests the server
// deletes no containers before an hour is over.

const (
	almostIdle = line.IdleLine - time.Second
	longIdle   = line.IdleLine + 2*time.Second
)

// idles lets time pass, until all goroutines sleep again.
func idles(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestALineThatTheClientHasNotUsedForHalfAMinuteIsDeleted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Client(nil)
		idles(almostIdle)
		require.True(t, w.Has(w.Path))
		requests := w.Requests(func() { idles(2 * time.Second) })
		require.False(t, w.Has(w.Path))
		require.Equal(t, 1, recipetest.Writes(requests))
	})
}

func TestALineThatIsUsedAgainInTimeStaysAndCostsNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		for range 5 {
			idles(almostIdle)
			require.Equal(t, 2, recipetest.Sum(w.Requests(func() {
				require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(t.Context(), recipetest.Nothing))
			})))
		}
		idles(longIdle)
		require.False(t, w.Has(w.Path))
		require.NoError(t, zkrecipes.NewMutex(c, w.Path).Do(t.Context(), recipetest.Nothing))
	})
}

func TestALineInUseIsNotEvenLookedAt(t *testing.T) {
	ctx := context.Background()
	for name, use := range map[string]func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) (end func()){
		"held": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) func() {
			l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
			return func() { require.NoError(t, l.Release()) }
		},
		"waited for": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) func() {
			other := w.Client(nil)
			l := recipetest.LockOn(t, zkrecipes.NewMutex(other, w.Path))
			a := w.LockLater(c)
			return func() {
				require.NoError(t, l.Release())
				require.NoError(t, a.Get().Release())
			}
		},
		"kept": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) func() {
			require.NoError(t, zkrecipes.NewMutex(c, w.Path, zkrecipes.KeepFor(50*time.Minute)).Do(ctx, recipetest.Nothing)) // the server deletes idle containers once an hour
			return func() { time.Sleep(39*time.Minute + 500*time.Millisecond) }
		},
		"slots": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) func() {
			l, err := zkrecipes.NewSemaphore(c, w.Path, 2).Acquire(ctx)
			require.NoError(t, err)
			return func() { require.NoError(t, l.Release()) }
		},
		"led": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) func() {
			term, err := zkrecipes.NewElection(c, w.Path).Campaign(ctx, nil)
			require.NoError(t, err)
			return func() { require.NoError(t, term.Resign()) }
		},
		"visited": func(t *testing.T, w *recipetest.World, c *zkrecipes.Client) func() {
			v, err := zkrecipes.NewDoubleBarrier(c, w.Path, 1).Enter(ctx)
			require.NoError(t, err)
			return func() { require.NoError(t, v.Leave(ctx)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				end := use(t, w, c)
				requests := w.Requests(func() { idles(11 * time.Minute) })
				require.Zero(t, requests["delete"])
				require.Zero(t, requests["exists"])
				end()
				idles(almostIdle)
				require.True(t, w.Has(w.Path))
				idles(5 * time.Second)
				if name == "slots" { // the size stays
					require.Empty(t, w.Srv.Children(w.Path))
					require.True(t, w.Has(w.Path))
				} else {
					require.False(t, w.Has(w.Path))
				}
			})
		})
	}
}

func TestALineThatAnotherClientHasUsedSinceIsLeftToIt(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		w.Client(nil)
		idles(almostIdle)
		other := w.Client(nil)
		requests := w.Requests(func() { idles(3 * time.Second) })
		require.True(t, w.Has(w.Path))
		require.Zero(t, requests["delete"], "the first client has seen that")
		idles(longIdle)
		require.False(t, w.Has(w.Path), "deleted by the other one")
		require.NoError(t, other.Close())
	})
}

func TestOnlyLinesOfThisLibraryAreDeleted(t *testing.T) {
	lock := func(t *testing.T, w *recipetest.World, path string) {
		require.NoError(t, zkrecipes.NewMutex(w.Stranger(nil), path).Do(t.Context(), recipetest.Nothing))
	}
	for name, make := range map[string]func(t *testing.T, w *recipetest.World){
		"data of a user's": func(t *testing.T, w *recipetest.World) {
			_, err := w.Bare().Create(w.Path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			lock(t, w, w.Path)
		},
		"a container of Curator's": func(t *testing.T, w *recipetest.World) {
			_, err := w.Bare().CreateContainer(w.Path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			lock(t, w, w.Path)
		},
		"an empty znode": func(t *testing.T, w *recipetest.World) {
			_, err := w.Bare().Create(w.Path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			lock(t, w, w.Path)
		},
		"a line whose data a user has replaced": func(t *testing.T, w *recipetest.World) {
			lock(t, w, w.Path)
			_, err := w.Insider().Set(w.Path, []byte("mine"), -1)
			require.NoError(t, err)
		},
		"another znode with the same version": func(t *testing.T, w *recipetest.World) {
			lock(t, w, w.Path)
			conn := w.Insider()
			require.NoError(t, conn.Delete(w.Path, -1))
			_, err := conn.Create(w.Path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			_, err = conn.Set(w.Path, []byte("mine"), -1)
			require.NoError(t, err)
		},
		"a line to which a user has given a list": func(t *testing.T, w *recipetest.World) {
			lock(t, w, w.Path)
			conn := w.Insider()
			_, err := conn.SetACL(w.Path, zk.WorldACL(zk.PermAll), -1)
			require.NoError(t, err)
		},
		"a line with a child": func(t *testing.T, w *recipetest.World) {
			lock(t, w, w.Path)
			_, err := w.Bare().Create(w.Path+"/config", nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		},
		"a parent of somebody else's": func(t *testing.T, w *recipetest.World) {
			_, err := w.Bare().Create(w.Path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			lock(t, w, w.Path+"/a")
		},
		"a parent that was made anew": func(t *testing.T, w *recipetest.World) {
			lock(t, w, w.Path+"/a")
			conn := w.Bare()
			require.NoError(t, conn.Delete(w.Path+"/a", -1))
			require.NoError(t, conn.Delete(w.Path, -1))
			_, err := conn.Create(w.Path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				make(t, w)
				requests := w.Requests(func() { idles(5 * time.Minute) })
				require.True(t, w.Has(w.Path))
				require.LessOrEqual(t, requests["delete"], 1, "of a line below")
				require.LessOrEqual(t, requests["exists"], 2, "not again and again")
			})
		})
	}
}

func TestParentsThatTheClientHasCreatedAreDeletedWithTheLastLine(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for _, path := range []string{"/app/locks/a", "/app/locks/b", "/app/other/c"} {
			require.NoError(t, zkrecipes.NewMutex(c, path).Do(t.Context(), recipetest.Nothing))
		}
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, "/app/locks/b"))
		idles(time.Minute)
		require.False(t, w.Has("/app/locks/a"))
		require.False(t, w.Has("/app/other"))
		require.True(t, w.Has("/app/locks/b"))
		require.NoError(t, l.Release())
		idles(longIdle)
		require.False(t, w.Has("/app"))
		require.Zero(t, line.KnownContainers(recipetest.Core(c)))
	})
}

func TestEachRecipeLeavesNothingButWhatMustStay(t *testing.T) {
	for _, tt := range []struct {
		name string
		use  func(ctx context.Context, c *zkrecipes.Client) error
		left []string
	}{
		{"mutex", func(ctx context.Context, c *zkrecipes.Client) error {
			return zkrecipes.NewMutex(c, "/r/p").Do(ctx, recipetest.Nothing)
		}, nil},
		{"kept mutex", func(ctx context.Context, c *zkrecipes.Client) error {
			return zkrecipes.NewMutex(c, "/r/p", zkrecipes.KeepFor(time.Second)).Do(ctx, recipetest.Nothing)
		}, nil},
		{"rwlock", func(ctx context.Context, c *zkrecipes.Client) error {
			l, err := zkrecipes.NewRWLock(c, "/r/p").RLock(ctx)
			if err == nil {
				err = l.Release()
			}
			return err
		}, nil},
		{"semaphore", func(ctx context.Context, c *zkrecipes.Client) error {
			x := zkrecipes.NewSemaphore(c, "/r/p", 2)
			for range 3 {
				if err := x.Do(ctx, func(context.Context, *zkrecipes.SlotLease) error { return nil }); err != nil {
					return err
				}
			}
			return nil
		}, []string{"/r/p"}},
		{"election", func(ctx context.Context, c *zkrecipes.Client) error {
			t, err := zkrecipes.NewElection(c, "/r/p").Campaign(ctx, []byte("me"))
			if err == nil {
				err = t.Resign()
			}
			return err
		}, nil},
		{"barrier", func(ctx context.Context, c *zkrecipes.Client) error {
			_, err := zkrecipes.NewBarrier(c, "/r/p", 1).Wait(ctx)
			return err
		}, []string{"/r/p"}},
		{"double barrier", func(ctx context.Context, c *zkrecipes.Client) error {
			v, err := zkrecipes.NewDoubleBarrier(c, "/r/p", 1).Enter(ctx)
			if err == nil {
				err = v.Leave(ctx)
			}
			return err
		}, nil},
		{"gate", func(ctx context.Context, c *zkrecipes.Client) error {
			g := zkrecipes.NewGate(c, "/r/p")
			if err := g.Shut(ctx); err != nil {
				return err
			}
			return g.Open(ctx)
		}, nil},
		{"queue", func(ctx context.Context, c *zkrecipes.Client) error {
			q := zkrecipes.NewQueue(c, "/r/p", &zkrecipes.QueueOptions{MaxLen: 3})
			if _, err := q.Put(ctx, []byte("item")); err != nil {
				return err
			}
			it, err := q.Take(ctx)
			if err == nil {
				err = it.Ack(ctx)
			}
			return err
		}, []string{"/r/p", "/r/p/s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				for range 2 { // the second time, all of it is made anew
					require.NoError(t, tt.use(t.Context(), c))
					idles(time.Minute)
					for _, path := range []string{"/r/p/line", "/r/p/slots", "/r/p/room"} {
						require.False(t, w.Has(path), path)
					}
					for _, path := range tt.left {
						require.True(t, w.Has(path), path)
					}
					if tt.left == nil {
						require.False(t, w.Has("/r"))
					}
				}
			})
		})
	}
}

func TestManyLinesAreDeletedTogetherAndNotTooFast(t *testing.T) {
	const n = 3_000
	var mu sync.Mutex
	var deleted []time.Time
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		for i := range n {
			require.NoError(t, zkrecipes.NewMutex(c, fmt.Sprintf("/orders/%d", i)).Do(t.Context(), recipetest.Nothing))
		}
		before := w.Srv.Counts()
		idles(almostIdle)
		mu.Lock()
		require.Empty(t, deleted)
		mu.Unlock()
		idles(time.Minute)
		require.False(t, w.Has("/orders"))
		counts := w.Srv.Counts().Sub(before)
		require.Equal(t, n+1, counts.Requests["delete"])
		require.Equal(t, n+1, counts.Requests["exists"])
		require.Zero(t, line.KnownContainers(recipetest.Core(c)))
		mu.Lock()
		defer mu.Unlock()
		for i, at := range deleted[min(len(deleted), 1_050):] {
			require.GreaterOrEqual(t, at.Sub(deleted[i]), time.Second, "1,000 a second")
		}
	}, zktest.OnChange(func(c zktest.Change) {
		if c.Deleted && len(c.Path) < len("/orders/")+5 {
			mu.Lock()
			deleted = append(deleted, time.Now())
			mu.Unlock()
		}
	}))
}

func TestADisconnectedClientDeletesLaterAndAnotherSessionGoesOn(t *testing.T) {
	for name, fault := range map[string]func(w *recipetest.World, c *zkrecipes.Client){
		"disconnected": func(w *recipetest.World, c *zkrecipes.Client) { w.Away(c); idles(5 * time.Second); w.Back() },
		"expired": func(w *recipetest.World, c *zkrecipes.Client) {
			require.True(w.T, w.Srv.Expire(recipetest.SessionID(c)))
		},
		"delete lost": func(w *recipetest.World, _ *zkrecipes.Client) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "delete"})
		},
		"reply lost": func(w *recipetest.World, _ *zkrecipes.Client) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "delete", After: true})
		},
		"look lost": func(w *recipetest.World, _ *zkrecipes.Client) {
			w.Plan.Add(zktest.Fault{Do: zktest.Drop, Op: "exists"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Client(nil)
				idles(almostIdle)
				fault(w, c)
				idles(30 * time.Second)
				require.False(t, w.Has(w.Path))
				require.Zero(t, line.KnownContainers(recipetest.Core(c)))
			})
		})
	}
}

func TestAJoinBesideTheDeletionOfItsLine(t *testing.T) {
	for _, op := range []string{"exists", "delete"} {
		for _, after := range []bool{false, true} {
			for at := range time.Duration(10) {
				t.Run(fmt.Sprintf("%s %v %d ms", op, after, at), func(t *testing.T) {
					recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
						c, other := w.Client(nil), w.Stranger(nil)
						w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, After: after, For: 4 * time.Millisecond})
						time.Sleep(almostIdle)
						for !w.Busy(op) { // until the deletion is under way
							time.Sleep(time.Millisecond)
						}
						time.Sleep(at * time.Millisecond)
						var calls []*harness.Call[struct{}]
						for _, m := range []*zkrecipes.Mutex{zkrecipes.NewMutex(c, w.Path), zkrecipes.NewMutex(other, w.Path)} {
							calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
								return m.Do(ctx, func(_ context.Context, l *zkrecipes.Lease) error {
									w.Stands(l)
									return nil
								})
							}))
						}
						for _, call := range calls {
							call.Get()
						}
						require.Empty(t, w.Srv.Children(w.Path))
					})
				})
			}
		}
	}
}

func TestACloseDoesNotWaitForLinesThatAreLeft(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Client(nil)
		began := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), time.Second)
		idles(time.Minute)
		require.True(t, w.Has(w.Path), "it is the servers' to delete")
	})
}
