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
	h.add(begin(), change{acquired: 20})
	h.add(begin().Add(9*time.Second), change{acquired: 10})
	h.add(begin().Add(10*time.Second), change{acquired: 5})
	points := h.points(begin().Add(10 * time.Second))
	require.Len(t, points, 90)
	require.Equal(t, []float64{0, 3, 0.5}, []float64{points[87].Rate, points[88].Rate, points[89].Rate})
	require.Equal(t, 3.0, h.points(begin().Add(890 * time.Second))[0].Rate)
	for _, p := range h.points(begin().Add(910 * time.Second)) {
		require.Zero(t, p)
	}
	h.add(begin().Add(900*time.Second), change{acquired: 1}) // in the place of the first cell
	require.Equal(t, 0.1, h.points(begin().Add(900 * time.Second))[89].Rate)
}

func TestTheRateIsThatOfTheLastMinute(t *testing.T) {
	var h history
	h.add(begin(), change{acquired: 60})
	require.InDelta(t, 60.0/65, h.rate(begin().Add(5*time.Second)), 1e-9)
	require.InDelta(t, 1.0, h.rate(begin().Add(60*time.Second)), 1e-9)
	require.Zero(t, h.rate(begin().Add(70*time.Second)))
}

func TestTheP99IsTheUpperEndOfItsClass(t *testing.T) {
	var h history
	require.Nil(t, h.waits(begin()))
	h.add(begin(), change{atOnce: 99})
	require.Zero(t, *h.waits(begin()))
	h.add(begin(), change{waits: []time.Duration{30 * time.Second}})
	require.Zero(t, *h.waits(begin()), "one in a hundred waited longer")
	h.add(begin(), change{waits: []time.Duration{40 * time.Second}})
	require.InDelta(t, 30, *h.waits(begin()), 10)
	require.GreaterOrEqual(t, *h.waits(begin()), 30.0)
	require.Nil(t, h.waits(begin().Add(15*time.Minute)))
	require.Equal(t, classes-1, classOf(100*time.Hour), "the last class has no end")
}
