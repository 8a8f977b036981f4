package recipetest

import "github.com/zkrecipes/zkrecipes/internal/assert"

func init() {
	assert.Failed = func(invariant string) { panic("invariant violated: " + invariant) }
}
