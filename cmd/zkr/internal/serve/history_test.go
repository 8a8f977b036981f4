//go:build unix

package serve

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// begin is the beginning of a cell.
func begin() time.Time { return time.Unix(1_800_000_000, 0) }

func TestAHistoryHasTheLast15Minutes(t *testing.T) {
	var h history
	h.acquire(begin(), 20)
	h.acquire(begin().Add(9*time.Second), 10)
	h.acquire(begin().Add(10*time.Second), 5)
	points := h.points(begin().Add(10 * time.Second))
	require.Len(t, points, 90)
	require.Equal(t, []float64{0, 3, 0.5}, []float64{points[87].Rate, points[88].Rate, points[89].Rate})
	require.Equal(t, 3.0, h.points(begin().Add(890 * time.Second))[0].Rate)
	for _, p := range h.points(begin().Add(910 * time.Second)) {
		require.Zero(t, p)
	}
	h.acquire(begin().Add(900*time.Second), 1) // in the place of the first cell
	require.Equal(t, 0.1, h.points(begin().Add(900 * time.Second))[89].Rate)
}

func TestTheRateIsThatOfTheLastMinute(t *testing.T) {
	var h history
	h.acquire(begin(), 60)
	require.InDelta(t, 60.0/65, h.rate(begin().Add(5*time.Second)), 1e-9)
	require.InDelta(t, 1.0, h.rate(begin().Add(60*time.Second)), 1e-9)
	require.Zero(t, h.rate(begin().Add(70*time.Second)))
}

func TestTheP99IsTheUpperEndOfItsClass(t *testing.T) {
	var h history
	require.Nil(t, h.waits(begin()))
	h.wait(begin(), 0, 99)
	require.Zero(t, *h.waits(begin()))
	h.wait(begin(), 30*time.Second, 1)
	require.Zero(t, *h.waits(begin()), "one in a hundred waited longer")
	h.wait(begin(), 40*time.Second, 1)
	require.InDelta(t, 30, *h.waits(begin()), 10)
	require.GreaterOrEqual(t, *h.waits(begin()), 30.0)
	require.Nil(t, h.waits(begin().Add(15*time.Minute)))
}

func TestEachWaitIsInAClassThatEndsAboveIt(t *testing.T) {
	for d := time.Millisecond; d < 3*time.Hour; d += d/7 + time.Nanosecond {
		class := classOf(d)
		require.GreaterOrEqual(t, upTo(class), d.Seconds()*0.999999, d)
		if class > 0 {
			require.Less(t, upTo(class-1), d.Seconds()*1.000001, d)
		}
	}
	require.Equal(t, classes-1, classOf(100*time.Hour))
}
