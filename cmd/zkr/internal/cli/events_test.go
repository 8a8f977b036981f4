//go:build unix

package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// A leader has another znode than the candidate that it was, and so has a slot.
func TestAWaiterThatIsGrantedHasNotLeft(t *testing.T) {
	waits := func(name string, s view.Session) view.Place { return view.Place{Name: name, Session: s} }
	holds := func(name string, s view.Session) view.Place {
		return view.Place{Name: name, Session: s, Held: true}
	}
	for _, row := range []struct {
		recipe        zkrecipes.Recipe
		before, after []view.Place
		want          []string
	}{
		{zkrecipes.RecipeElection, []view.Place{holds("leader", 1), waits("b", 2), waits("c", 3)}, []view.Place{holds("leader", 2)}, []string{"released leader", "left c", "granted leader"}},
		{zkrecipes.RecipeSemaphore, []view.Place{waits("b", 2), waits("c", 3)}, []view.Place{holds("0-b", 2), holds("1-b", 2), holds("2-d", 4)},
			[]string{"left c", "granted 0-b", "granted 1-b", "joined 2-d", "granted 2-d"}},
		{zkrecipes.RecipeMutex, []view.Place{waits("b", 2)}, []view.Place{holds("c", 2)}, []string{"left b", "joined c", "granted c"}},
	} {
		before, after := view.Line{Recipe: row.recipe, Places: row.before}, view.Line{Recipe: row.recipe, Places: row.after}
		var got []string
		for _, e := range eventsBetween(time.Now(), &before, after) {
			got = append(got, e.Event+" "+e.Place)
		}
		require.Equal(t, row.want, got, row.recipe)
	}
}
