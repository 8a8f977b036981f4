package recipetest

import (
	"fmt"

	"github.com/zkrecipes/zkrecipes"
)

// Member returns a client whose identity is its number.
func (w *World) Member(n int) *zkrecipes.Client {
	return w.Stranger(&zkrecipes.Options{Identity: fmt.Sprint("member ", n)})
}
