package zkrecipes

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Members that disagree on n, because somebody has changed it.

// used returns a Barrier that has been used, so that it knows the path and its n.
func used(t testing.TB, c *Client, n int) *Barrier {
	t.Helper()
	b := NewBarrier(c, "/b", n)
	var as []*harness.Call[int]
	for range n {
		as = append(as, waitLater(t, b))
	}
	indexes(t, as...)
	membersLeft()
	return b
}

// requireSize requires that a call failed because of those two sizes.
func requireSize(t testing.TB, err error, says string) {
	t.Helper()
	require.ErrorIs(t, err, ErrSize)
	require.ErrorContains(t, err, says)
	require.NotErrorIs(t, err, ErrUncertain)
}

// The path is reaped, or deleted, and made anew with another n.
func TestB78BarrierThatRemembersAnotherNIsAnErrorAndOpensNothing(t *testing.T) {
	for name, n := range map[string]int{"more": 3, "fewer": 1} {
		t.Run(name+" than it remembers", func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				old := used(t, w.stranger(nil), 2)
				wipe(t, w.bare(), "/b")
				now := func() *harness.Call[int] { return waitLater(t, NewBarrier(w.stranger(nil), "/b", n)) }
				var as []*harness.Call[int]
				for range n {
					as = append(as, now())
					synctest.Wait()
					if len(as) == n {
						break
					}
					before := len(w.present())
					_, err := old.Wait(harness.Within(t, time.Minute))
					requireSize(t, err, "a barrier of 3 members is used as one of 2")
					synctest.Wait()
					require.Len(t, w.present(), before)
				}
				indexes(t, as...)
				_, err := old.Wait(harness.Within(t, time.Minute))
				require.ErrorIs(t, err, ErrSize)
				membersLeft()
				require.Empty(t, w.srv.Children("/b"))
			})
		})
	}
}

// All that have come remember an n that the path no longer has. They are as many.
func TestB78MembersThatAllRememberAnotherNOpenNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		old := used(t, w.stranger(nil), 2)
		_, err := w.insider().Set("/b", []byte("3"), -1)
		require.NoError(t, err)
		for _, a := range []*harness.Call[int]{waitLater(t, old), waitLater(t, old)} {
			_, err := a.Wait()
			requireSize(t, err, "a barrier of 3 members is used as one of 2")
		}
		synctest.Wait()
		require.Empty(t, w.srv.Children("/b"))
	})
}

// The one that remembers another n has come first. The others must not be let through
// with it, and its number must not be one of theirs.
func TestB78MemberThatRemembersAnotherNIsNotCounted(t *testing.T) {
	for _, n := range []int{2, 4} {
		inBubble(t, func(t *testing.T, w *world) {
			old := used(t, w.stranger(nil), n)
			conn := w.insider()
			_, err := conn.Set("/b", []byte("3"), -1)
			require.NoError(t, err)
			wrong := waitLater(t, old)
			synctest.Wait()
			var as []*harness.Call[int]
			for range 3 {
				for _, a := range as {
					require.True(t, a.Waiting())
				}
				as = append(as, waitLater(t, NewBarrier(w.stranger(nil), "/b", 3)))
				synctest.Wait()
			}
			indexes(t, as...)
			_, err = wrong.Wait()
			requireSize(t, err, "a barrier of 3 members is used as one of ")
			membersLeft()
			require.Empty(t, w.srv.Children("/b"))
		})
	}
}

func TestB78MemberThatWaitsAloneLearnsThatItsNIsAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		old := used(t, w.stranger(nil), 3)
		_, err := w.insider().Set("/b", []byte("2"), -1)
		require.NoError(t, err)
		a := waitLater(t, old)
		synctest.Wait()
		require.True(t, a.Waiting(), "it costs a request, so short waits do not ask")
		time.Sleep(2 * time.Second)
		_, err = a.Wait()
		requireSize(t, err, "a barrier of 2 members is used as one of 3")
	})
}

// n is changed while the round is being opened: after the opener has read it.
func TestB78RoundIsNotOpenedForAnNThatWasChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opOpenRound, For: 100 * time.Millisecond})
		b := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		_, err := w.insider().Set("/b", []byte("3"), -1)
		require.NoError(t, err)
		for _, m := range []*harness.Call[int]{b, a} {
			_, err := m.Wait()
			requireSize(t, err, "a barrier of 3 members is used as one of 2")
		}
		synctest.Wait()
		require.Empty(t, w.srv.Children("/b"))
	})
}

// What is not a change of n does not keep a round from being opened.
func TestB78RoundIsOpenedAlthoughThePathWasWritten(t *testing.T) {
	for _, data := range []string{"2", ""} {
		inBubble(t, func(t *testing.T, w *world) {
			a := waitLater(t, barrierOf2(w.stranger(nil)))
			synctest.Wait()
			w.plan.Add(zktest.Fault{Do: zktest.Delay, Op: opOpenRound, For: 100 * time.Millisecond})
			b := waitLater(t, barrierOf2(w.stranger(nil)))
			synctest.Wait()
			conn := w.insider()
			_, err := conn.Set("/b", []byte(data), -1)
			require.NoError(t, err)
			indexes(t, a, b)
			got, _, err := conn.Get("/b")
			require.NoError(t, err)
			require.Equal(t, "2", string(got))
		})
	}
}

// A Barrier that is used all the time reads n again.
func TestB78BarrierInUseReadsNAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		b := used(t, w.stranger(nil), 1)
		reads := 0
		for range 12 {
			time.Sleep(10 * time.Second)
			reads += w.requests(func() { indexes(t, waitLater(t, b)) })["getData"]
		}
		require.Equal(t, 12+4, reads, "to open each round, and every half a minute")
	})
}

// A round that was opened for another n is none of the member's, whoever opened it.
func TestB78RoundOpenedForAnotherNIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := waitLater(t, barrierOf2(w.stranger(nil)))
		synctest.Wait()
		number := w.present()[0].Name[len(w.present()[0].Name)-10:]
		_, err := w.insider().Set(readyOf2, []byte(number+",11,13"), -1)
		require.NoError(t, err)
		_, err = a.Wait()
		requireSize(t, err, "a barrier of 3 members is used as one of 2")
		synctest.Wait()
		require.Empty(t, w.srv.Children("/b"))
	})
}
