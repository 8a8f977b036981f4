package barrier_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Members that disagree on n, because somebody has changed it.

// used returns a Barrier that has been used, so that it knows the path and its n.
func used(t testing.TB, c *zkrecipes.Client, n int) *zkrecipes.Barrier {
	t.Helper()
	b := zkrecipes.NewBarrier(c, "/b", n)
	var as []*harness.Call[int]
	for range n {
		as = append(as, recipetest.WaitLater(t, b))
	}
	recipetest.Indexes(t, as...)
	recipetest.MembersLeft()
	return b
}

// The path is reaped, or deleted, and made anew with another n.
func TestB78BarrierThatRemembersAnotherNIsAnErrorAndOpensNothing(t *testing.T) {
	for name, n := range map[string]int{"more": 3, "fewer": 1} {
		t.Run(name+" than it remembers", func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				old := used(t, w.Stranger(nil), 2)
				recipetest.Wipe(t, w.Bare(), "/b")
				now := func() *harness.Call[int] {
					return recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/b", n))
				}
				var as []*harness.Call[int]
				for range n {
					as = append(as, now())
					synctest.Wait()
					if len(as) == n {
						break
					}
					before := len(w.Present())
					_, err := old.Wait(harness.Within(t, time.Minute))
					recipetest.RequireSize(t, err, "a barrier of 3 members is used as one of 2")
					synctest.Wait()
					require.Len(t, w.Present(), before)
				}
				recipetest.Indexes(t, as...)
				_, err := old.Wait(harness.Within(t, time.Minute))
				require.ErrorIs(t, err, zkrecipes.ErrSize)
				recipetest.MembersLeft()
				require.Empty(t, w.Srv.Children("/b"))
			})
		})
	}
}

// All that have come remember an n that the path no longer has. They are as many.
func TestB78MembersThatAllRememberAnotherNOpenNothing(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		old := used(t, w.Stranger(nil), 2)
		_, err := w.Insider().Set("/b", []byte("3"), -1)
		require.NoError(t, err)
		for _, a := range []*harness.Call[int]{recipetest.WaitLater(t, old), recipetest.WaitLater(t, old)} {
			_, err := a.Wait()
			recipetest.RequireSize(t, err, "a barrier of 3 members is used as one of 2")
		}
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/b"))
	})
}

// The one that remembers another n has come first. The others must not be let through
// with it, and its number must not be one of theirs.
func TestB78MemberThatRemembersAnotherNIsNotCounted(t *testing.T) {
	for _, n := range []int{2, 4} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			old := used(t, w.Stranger(nil), n)
			conn := w.Insider()
			_, err := conn.Set("/b", []byte("3"), -1)
			require.NoError(t, err)
			wrong := recipetest.WaitLater(t, old)
			synctest.Wait()
			var as []*harness.Call[int]
			for range 3 {
				for _, a := range as {
					require.True(t, a.Waiting())
				}
				as = append(as, recipetest.WaitLater(t, zkrecipes.NewBarrier(w.Stranger(nil), "/b", 3)))
				synctest.Wait()
			}
			recipetest.Indexes(t, as...)
			_, err = wrong.Wait()
			recipetest.RequireSize(t, err, "a barrier of 3 members is used as one of ")
			recipetest.MembersLeft()
			require.Empty(t, w.Srv.Children("/b"))
		})
	}
}

func TestB78MemberThatWaitsAloneLearnsThatItsNIsAnother(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		old := used(t, w.Stranger(nil), 3)
		_, err := w.Insider().Set("/b", []byte("2"), -1)
		require.NoError(t, err)
		a := recipetest.WaitLater(t, old)
		synctest.Wait()
		require.True(t, a.Waiting(), "it costs a request, so short waits do not ask")
		time.Sleep(2 * time.Second)
		_, err = a.Wait()
		recipetest.RequireSize(t, err, "a barrier of 2 members is used as one of 3")
	})
}

// n is changed while the round is being opened: after the opener has read it.
func TestB78RoundIsNotOpenedForAnNThatWasChanged(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		synctest.Wait()
		w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpOpenRound, For: 100 * time.Millisecond})
		b := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		synctest.Wait()
		_, err := w.Insider().Set("/b", []byte("3"), -1)
		require.NoError(t, err)
		for _, m := range []*harness.Call[int]{b, a} {
			_, err := m.Wait()
			recipetest.RequireSize(t, err, "a barrier of 3 members is used as one of 2")
		}
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/b"))
	})
}

// What is not a change of n does not keep a round from being opened.
func TestB78RoundIsOpenedAlthoughThePathWasWritten(t *testing.T) {
	for _, data := range []string{"2", ""} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			a := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
			synctest.Wait()
			w.Plan.Add(zktest.Fault{Do: zktest.Delay, Op: recipetest.OpOpenRound, For: 100 * time.Millisecond})
			b := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
			synctest.Wait()
			conn := w.Insider()
			_, err := conn.Set("/b", []byte(data), -1)
			require.NoError(t, err)
			recipetest.Indexes(t, a, b)
			got, _, err := conn.Get("/b")
			require.NoError(t, err)
			require.Equal(t, "2", string(got))
		})
	}
}

// A Barrier that is used all the time reads n again.
func TestB78BarrierInUseReadsNAgain(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		b := used(t, w.Stranger(nil), 1)
		reads := 0
		for range 12 {
			time.Sleep(10 * time.Second)
			reads += w.Requests(func() { recipetest.Indexes(t, recipetest.WaitLater(t, b)) })["getData"]
		}
		require.Equal(t, 12+4, reads, "to open each round, and every half a minute")
	})
}

// A round that was opened for another n is none of the member's, whoever opened it.
func TestB78RoundOpenedForAnotherNIsAnError(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		a := recipetest.WaitLater(t, barrierOf2(w.Stranger(nil)))
		synctest.Wait()
		number := w.Present()[0].Name[len(w.Present()[0].Name)-10:]
		_, err := w.Insider().Set(recipetest.ReadyOf2, []byte(number+",11,13"), -1)
		require.NoError(t, err)
		_, err = a.Wait()
		recipetest.RequireSize(t, err, "a barrier of 3 members is used as one of 2")
		synctest.Wait()
		require.Empty(t, w.Srv.Children("/b"))
	})
}
