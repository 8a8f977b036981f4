package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// What a put costs in front of a backlog.

func TestBoundedPutCostsTheSameWhateverTheBacklog(t *testing.T) {
	cost := func(backlog int) (c recipetest.PutCost) {
		recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) { c = w.CostOfBoundedPuts(backlog) })
		t.Logf("backlog %d: %d bytes received and %d bytes allocated for each put, %v", backlog, c.Received, c.Memory, c.Requests)
		return c
	}
	few, many := cost(100), cost(20_000)
	require.Equal(t, few.Requests, many.Requests)
	require.InEpsilon(t, few.Received, many.Received, 0.05)
	require.Less(t, float64(many.Memory), 1.5*float64(few.Memory), "the work of a count")
}
