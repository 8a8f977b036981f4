package session_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Servers that serve reads and refuse writes, for now or for ever.

// refuseWrites has the server answer all writes with that error.
func refuseWrites(w *recipetest.World, code int32) {
	for _, op := range []string{"multi", "create", "create2", "createContainer", "delete", "setData"} {
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: op, Code: code, Times: -1})
	}
}

var forNow = map[int32]string{
	-4:   "ConnectionLoss (error -4 of the server)",
	-7:   "OperationTimeout (error -7 of the server)",
	-112: "session has been expired",
	-118: "session moved to another server",
	-127: "ThrottledOp (error -127 of the server)",
}

func TestCallsThatServersRefuseForNowAskMoreAndMoreSlowlyAndSayWhy(t *testing.T) {
	for code, why := range forNow {
		for _, recipe := range slices.Sorted(maps.Keys(recipetest.Recipes)) {
			t.Run(fmt.Sprint(code, " ", recipe), func(t *testing.T) {
				recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
					log := &recipetest.Warnings{}
					c := w.Stranger(&zkrecipes.Options{Logger: log.Logger()})
					refuseWrites(w, code)
					time.AfterFunc(2*time.Minute, w.Plan.Stop) // not all calls end with their context
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					before := w.Srv.Counts()
					err := recipetest.UseOnce(ctx, recipe, c, "/path")
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorContains(t, err, "refused for now: ")
					require.ErrorContains(t, err, why)
					// A call that has to search for what it may have created costs three.
					require.Less(t, recipetest.Sum(w.Srv.Counts().Sub(before).Requests), 300)
					require.NotEmpty(t, log.With("servers refuse requests for now"))
					require.Less(t, len(log.With("servers refuse requests for now")), 4, "one for each operation and connection")

					w.Plan.Stop()
					require.NoError(t, recipetest.UseOnce(harness.Within(t, time.Minute), recipe, c, "/other"), "it goes on")
				})
			})
		}
	}
}

func TestManyCallersThatServersRefuseForNowAskNoMoreThanOnceASecondEach(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		c := w.Stranger(nil)
		l := recipetest.Held(t, zkrecipes.NewMutex(c, w.Path).Lock)
		refuseWrites(w, -127)
		const callers = 200
		for i := range callers {
			recipetest.LockLater(t, zkrecipes.NewMutex(c, fmt.Sprint("/lock", i)))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		requests := w.Requests(func() { time.Sleep(10 * time.Second) })
		require.Less(t, recipetest.Sum(requests), 10*callers*3/2)
		w.Plan.Stop()
		began := time.Now()
		require.NoError(t, l.Release())
		require.LessOrEqual(t, time.Since(began), time.Second)
	})
}

// The handshake tells whether the session has expired.
func TestAServerThatTakesASessionForExpiredIsAskedByHandshakes(t *testing.T) {
	for _, code := range []int32{-112, -118} {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
			c := w.Client(nil)
			refuseWrites(w, code)
			before := w.Srv.Counts()
			a := recipetest.LockLater(t, zkrecipes.NewMutex(c, "/other"))
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Equal(t, 1, w.Srv.Counts().Sub(before).Requests["connect"])
			time.Sleep(time.Minute)
			synctest.Wait()
			// Rarely: after 4, 8, 16, 32 and 64 refusals of the join and of the deletion of an idle line.
			require.LessOrEqual(t, w.Srv.Counts().Sub(before).Requests["connect"], 2*5)
			require.True(t, w.Srv.Expire(recipetest.SessionID(c)))
			w.Plan.Stop()
			require.NoError(t, a.Get().Release())
		})
	}
}

func TestCallsThatServersRefuseForGoodReturnTheNameOfTheError(t *testing.T) {
	for code, text := range map[int32]string{
		-6:   "Unimplemented (error -6 of the server)",
		-119: "NotReadOnly (error -119 of the server)",
		-120: "EphemeralOnLocalSession (error -120 of the server)",
		-122: "RequestTimeout (error -122 of the server)",
		-124: "the server requires SASL",
	} {
		for _, recipe := range slices.Sorted(maps.Keys(recipetest.Recipes)) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				refuseWrites(w, code)
				err := recipetest.UseOnce(harness.Within(t, time.Minute), recipe, c, "/path")
				require.ErrorContains(t, err, text, recipe)
				w.Plan.Stop()
			})
		}
	}
}
