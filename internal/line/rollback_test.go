package line_test

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestEachRecipeGoesOnAfterTheServersHaveLostTransactions(t *testing.T) {
	recipetest.Rollbacks(t, recipetest.AllDrivers())
}

func TestEachRecipeGoesOnAfterTheServersHaveLostWhatALostReplyHadTold(t *testing.T) {
	recipetest.RollbacksOfLostReplies(t, recipetest.AllDrivers())
}
