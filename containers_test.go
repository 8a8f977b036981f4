package zkrecipes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
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

// has reports whether there is a znode.
func (w *world) has(path string) bool {
	parent := cmp.Or(zkconn.Parent(path), "/")
	return slices.Contains(w.srv.Children(parent), path[strings.LastIndexByte(path, '/')+1:])
}

func TestALineThatTheClientHasNotUsedForHalfAMinuteIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.client(nil)
		idles(almostIdle)
		require.True(t, w.has(w.path))
		requests := w.requests(func() { idles(2 * time.Second) })
		require.False(t, w.has(w.path))
		delete(requests, "ping")
		require.Equal(t, map[string]int{"exists": 1, "delete": 1}, requests)
	})
}

func TestALineThatIsUsedAgainInTimeStaysAndCostsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		for range 5 {
			idles(almostIdle)
			requests := w.requests(func() {
				require.NoError(t, NewMutex(c, w.path).Do(t.Context(), nothing))
			})
			require.Equal(t, map[string]int{opJoin: 1, opRelease: 1}, withoutPings(requests))
		}
		idles(longIdle)
		require.False(t, w.has(w.path))
		require.NoError(t, NewMutex(c, w.path).Do(t.Context(), nothing))
	})
}

func withoutPings(requests map[string]int) map[string]int {
	delete(requests, "ping")
	return requests
}

func TestALineInUseIsNotEvenLookedAt(t *testing.T) {
	ctx := context.Background()
	for name, use := range map[string]func(t *testing.T, w *world, c *Client) (end func()){
		"held": func(t *testing.T, w *world, c *Client) func() {
			l := lockOn(t, NewMutex(c, w.path))
			return func() { require.NoError(t, l.Release()) }
		},
		"waited for": func(t *testing.T, w *world, c *Client) func() {
			other := w.client(nil)
			l := lockOn(t, NewMutex(other, w.path))
			a := w.lockLater(c)
			return func() {
				require.NoError(t, l.Release())
				require.NoError(t, a.Get().Release())
			}
		},
		"kept": func(t *testing.T, w *world, c *Client) func() {
			require.NoError(t, NewMutex(c, w.path, KeepFor(50*time.Minute)).Do(ctx, nothing)) // the server deletes idle containers once an hour
			return func() { time.Sleep(39*time.Minute + 500*time.Millisecond) }
		},
		"slots": func(t *testing.T, w *world, c *Client) func() {
			l, err := NewSemaphore(c, w.path, 2).Acquire(ctx)
			require.NoError(t, err)
			return func() { require.NoError(t, l.Release()) }
		},
		"led": func(t *testing.T, w *world, c *Client) func() {
			term, err := NewElection(c, w.path).Campaign(ctx, nil)
			require.NoError(t, err)
			return func() { require.NoError(t, term.Resign()) }
		},
		"visited": func(t *testing.T, w *world, c *Client) func() {
			v, err := NewDoubleBarrier(c, w.path, 1).Enter(ctx)
			require.NoError(t, err)
			return func() { require.NoError(t, v.Leave(ctx)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				end := use(t, w, c)
				requests := w.requests(func() { idles(11 * time.Minute) })
				require.Zero(t, requests["delete"])
				require.Zero(t, requests["exists"])
				end()
				idles(almostIdle)
				require.True(t, w.has(w.path))
				idles(5 * time.Second)
				if name == "slots" { // the size stays
					require.Empty(t, w.srv.Children(w.path))
					require.True(t, w.has(w.path))
				} else {
					require.False(t, w.has(w.path))
				}
			})
		})
	}
}

func TestALineThatAnotherClientHasUsedSinceIsLeftToIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.client(nil)
		idles(almostIdle)
		other := w.client(nil)
		requests := w.requests(func() { idles(3 * time.Second) })
		require.True(t, w.has(w.path))
		require.Zero(t, requests["delete"], "the first client has seen that")
		idles(longIdle)
		require.False(t, w.has(w.path), "deleted by the other one")
		require.NoError(t, other.Close())
	})
}

func TestOnlyLinesOfThisLibraryAreDeleted(t *testing.T) {
	lock := func(t *testing.T, w *world, path string) {
		require.NoError(t, NewMutex(w.stranger(nil), path).Do(t.Context(), nothing))
	}
	for name, make := range map[string]func(t *testing.T, w *world){
		"data of a user's": func(t *testing.T, w *world) {
			_, err := w.bare().Create(w.path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			lock(t, w, w.path)
		},
		"a container of Curator's": func(t *testing.T, w *world) {
			_, err := w.bare().CreateContainer(w.path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			lock(t, w, w.path)
		},
		"an empty znode": func(t *testing.T, w *world) {
			_, err := w.bare().Create(w.path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			lock(t, w, w.path)
		},
		"a line whose data a user has replaced": func(t *testing.T, w *world) {
			lock(t, w, w.path)
			_, err := w.insider().Set(w.path, []byte("mine"), -1)
			require.NoError(t, err)
		},
		"another znode with the same version": func(t *testing.T, w *world) {
			lock(t, w, w.path)
			conn := w.insider()
			require.NoError(t, conn.Delete(w.path, -1))
			_, err := conn.Create(w.path, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			_, err = conn.Set(w.path, []byte("mine"), -1)
			require.NoError(t, err)
		},
		"a line to which a user has given a list": func(t *testing.T, w *world) {
			lock(t, w, w.path)
			conn := w.insider()
			_, err := conn.SetACL(w.path, zk.WorldACL(zk.PermAll), -1)
			require.NoError(t, err)
		},
		"a line with a child": func(t *testing.T, w *world) {
			lock(t, w, w.path)
			_, err := w.bare().Create(w.path+"/config", nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		},
		"a parent of somebody else's": func(t *testing.T, w *world) {
			_, err := w.bare().Create(w.path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			lock(t, w, w.path+"/a")
		},
		"a parent that was made anew": func(t *testing.T, w *world) {
			lock(t, w, w.path+"/a")
			conn := w.bare()
			require.NoError(t, conn.Delete(w.path+"/a", -1))
			require.NoError(t, conn.Delete(w.path, -1))
			_, err := conn.Create(w.path, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				make(t, w)
				requests := w.requests(func() { idles(5 * time.Minute) })
				require.True(t, w.has(w.path))
				require.LessOrEqual(t, requests["delete"], 1, "of a line below")
				require.LessOrEqual(t, requests["exists"], 2, "not again and again")
			})
		})
	}
}

func TestParentsThatTheClientHasCreatedAreDeletedWithTheLastLine(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		for _, path := range []string{"/app/locks/a", "/app/locks/b", "/app/other/c"} {
			require.NoError(t, NewMutex(c, path).Do(t.Context(), nothing))
		}
		l := lockOn(t, NewMutex(c, "/app/locks/b"))
		idles(time.Minute)
		require.False(t, w.has("/app/locks/a"))
		require.False(t, w.has("/app/other"))
		require.True(t, w.has("/app/locks/b"))
		require.NoError(t, l.Release())
		idles(longIdle)
		require.False(t, w.has("/app"))
		require.Empty(t, c.client.Containers.All)
	})
}

func TestEachRecipeLeavesNothingButWhatMustStay(t *testing.T) {
	for _, tt := range []struct {
		name string
		use  func(ctx context.Context, c *Client) error
		left []string
	}{
		{"mutex", func(ctx context.Context, c *Client) error { return NewMutex(c, "/r/p").Do(ctx, nothing) }, nil},
		{"kept mutex", func(ctx context.Context, c *Client) error {
			return NewMutex(c, "/r/p", KeepFor(time.Second)).Do(ctx, nothing)
		}, nil},
		{"rwlock", func(ctx context.Context, c *Client) error {
			l, err := NewRWLock(c, "/r/p").RLock(ctx)
			if err == nil {
				err = l.Release()
			}
			return err
		}, nil},
		{"semaphore", func(ctx context.Context, c *Client) error {
			x := NewSemaphore(c, "/r/p", 2)
			for range 3 {
				if err := x.Do(ctx, func(context.Context, *SlotLease) error { return nil }); err != nil {
					return err
				}
			}
			return nil
		}, []string{"/r/p"}},
		{"election", func(ctx context.Context, c *Client) error {
			t, err := NewElection(c, "/r/p").Campaign(ctx, []byte("me"))
			if err == nil {
				err = t.Resign()
			}
			return err
		}, nil},
		{"barrier", func(ctx context.Context, c *Client) error {
			_, err := NewBarrier(c, "/r/p", 1).Wait(ctx)
			return err
		}, []string{"/r/p"}},
		{"double barrier", func(ctx context.Context, c *Client) error {
			v, err := NewDoubleBarrier(c, "/r/p", 1).Enter(ctx)
			if err == nil {
				err = v.Leave(ctx)
			}
			return err
		}, nil},
		{"gate", func(ctx context.Context, c *Client) error {
			g := NewGate(c, "/r/p")
			if err := g.Shut(ctx); err != nil {
				return err
			}
			return g.Open(ctx)
		}, nil},
		{"queue", func(ctx context.Context, c *Client) error {
			q := NewQueue(c, "/r/p", &QueueOptions{MaxLen: 3})
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
			inBubble(t, func(t *testing.T, w *world) {
				c := w.stranger(nil)
				for range 2 { // the second time, all of it is made anew
					require.NoError(t, tt.use(t.Context(), c))
					idles(time.Minute)
					for _, path := range []string{"/r/p/line", "/r/p/slots", "/r/p/room"} {
						require.False(t, w.has(path), path)
					}
					for _, path := range tt.left {
						require.True(t, w.has(path), path)
					}
					if tt.left == nil {
						require.False(t, w.has("/r"))
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
	inBubble(t, func(t *testing.T, w *world) {
		c := w.stranger(nil)
		for i := range n {
			require.NoError(t, NewMutex(c, fmt.Sprintf("/orders/%d", i)).Do(t.Context(), nothing))
		}
		before := w.srv.Counts()
		idles(almostIdle)
		mu.Lock()
		require.Empty(t, deleted)
		mu.Unlock()
		idles(time.Minute)
		require.False(t, w.has("/orders"))
		counts := w.srv.Counts().Sub(before)
		require.Equal(t, n+1, counts.Requests["delete"])
		require.Equal(t, n+1, counts.Requests["exists"])
		require.Empty(t, c.client.Containers.All)
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
	for name, fault := range map[string]func(w *world, c *Client){
		"disconnected": func(w *world, c *Client) { w.away(c); idles(5 * time.Second); w.back() },
		"expired":      func(w *world, c *Client) { require.True(w.t, w.srv.Expire(sessionID(c))) },
		"delete lost":  func(w *world, _ *Client) { w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: "delete"}) },
		"reply lost":   func(w *world, _ *Client) { w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: "delete", After: true}) },
		"look lost":    func(w *world, _ *Client) { w.plan.Add(zktest.Fault{Do: zktest.Drop, Op: "exists"}) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c := w.client(nil)
				idles(almostIdle)
				fault(w, c)
				idles(30 * time.Second)
				require.False(t, w.has(w.path))
				require.Empty(t, c.client.Containers.All)
			})
		})
	}
}

func TestAJoinBesideTheDeletionOfItsLine(t *testing.T) {
	for _, op := range []string{"exists", "delete"} {
		for _, after := range []bool{false, true} {
			for at := range time.Duration(10) {
				t.Run(fmt.Sprintf("%s %v %d ms", op, after, at), func(t *testing.T) {
					inBubble(t, func(t *testing.T, w *world) {
						c, other := w.client(nil), w.stranger(nil)
						w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: op, After: after, For: 4 * time.Millisecond})
						time.Sleep(almostIdle)
						for !w.busy(op) { // until the deletion is under way
							time.Sleep(time.Millisecond)
						}
						time.Sleep(at * time.Millisecond)
						var calls []*harness.Call[struct{}]
						for _, m := range []*Mutex{NewMutex(c, w.path), NewMutex(other, w.path)} {
							calls = append(calls, harness.GoErr(t, func(ctx context.Context) error {
								return m.Do(ctx, func(_ context.Context, l *Lease) error {
									w.stands(l)
									return nil
								})
							}))
						}
						for _, call := range calls {
							call.Get()
						}
						require.Empty(t, w.srv.Children(w.path))
					})
				})
			}
		}
	}
}

// busy reports whether the server has got a request of that operation.
func (w *world) busy(op string) bool { return w.srv.Counts().Requests[op] > 0 }

func TestWhatIsRememberedOfContainersIsBounded(t *testing.T) {
	var begun int
	c := line.NewContainers(line.IdleLine)
	c.Begin = func() { begun++ }
	for i := range 2 * line.MaxContainers {
		c.Created(fmt.Sprintf("/%d", i), &zk.Stat{Czxid: int64(i + 1)})
	}
	require.Equal(t, line.MaxContainers, len(c.All))
	require.Equal(t, line.MaxContainers, c.Recent.Len()+c.Rest.Len())
	require.Equal(t, 1, begun, "early, because there are so many")
	require.Len(t, c.TakeDue(), line.TidyBatch)
	c.Stop()
}

func TestACloseDoesNotWaitForLinesThatAreLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.client(nil)
		began := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), time.Second)
		idles(time.Minute)
		require.True(t, w.has(w.path), "it is the servers' to delete")
	})
}
