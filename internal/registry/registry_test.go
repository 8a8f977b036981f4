package registry

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

func TestEachRecipeIsEnteredEverywhere(t *testing.T) {
	api, guides := text(t, "api.txt"), text(t, "docs/README.md")
	soak, tests := text(t, "internal/soak/*.go"), text(t, "*_test.go")+text(t, "internal/*/*_test.go")
	rows := map[string]string{} // of README's table, by the guide
	for _, row := range regexp.MustCompile(`(?m)^\| \[[^]]*\]\(docs/([^)]*)\) \| (.*?) \|`).FindAllStringSubmatch(text(t, "README.md"), -1) {
		rows[row[1]] += row[2]
	}
	var drivers []string
	for _, d := range slices.Concat(recipetest.AllDrivers(), recipetest.QueueDrivers(), recipetest.QueueTransactionDrivers()) {
		drivers = append(drivers, d.Name)
	}

	entered(t, "README", slices.Collect(maps.Keys(rows)), func(r Recipe) string { return r.Guide })
	entered(t, "a constructor, or a watch, in api.txt", slices.Concat(
		all(api, `zkrecipes: func New\w+\(c \*zkrecipes.Client, path string.*\) \*zkrecipes\.(\w+)`),
		all(api, `zkrecipes: method \(\*Client\)\.(WatchTree|Watch)\(.*iter`), all(api, `zkrecipes: func (\w+)\(.*\) \(\*zkrecipes\.Leases`),
	), func(r Recipe) string { return r.Name })
	entered(t, "a Recipe in api.txt", all(api, `const Recipe\w+ zkrecipes\.Recipe = "(.*)"`), func(r Recipe) string { return r.Trace })
	entered(t, "recipetest.Recipes", slices.Collect(maps.Keys(recipetest.Recipes)), func(r Recipe) string { return r.Use })
	entered(t, "the golden table of costs", slices.DeleteFunc(all(text(t, "internal/costs/testdata/costs.txt"), `(?m)^## (.*?)  `), func(title string) bool {
		return strings.Contains(title, ", on ZooKeeper") || slices.Contains([]string{"Lists and evictions", "Client"}, title)
	}), func(r Recipe) string { return r.Costs })
	entered(t, "the table of faults", drivers, func(r Recipe) string { return r.Faults })
	entered(t, "internal/sim", all(text(t, "internal/sim/sim_test.go"), `func Test(\w+)Simulation\(`), func(r Recipe) string { return r.Sim })
	for _, r := range Recipes {
		require.Contains(t, rows[r.Guide], r.Name, "README, %s", r.Guide)
		require.Contains(t, guides, "]("+r.Guide, "docs/README.md, %s", r.Name)
		require.FileExists(t, filepath.Join(root, r.File+".go"))
		if r.Trace != read { // what a recipe's documentation promises is tested beside it
			require.FileExists(t, filepath.Join(root, r.File+"_test.go"))
		}
		if r.FaultTest != "" {
			require.Contains(t, tests, "func "+r.FaultTest+"(")
		}
		require.Regexp(t, `func Example(Client_)?`+r.Name+`(_\w+)?\(`, tests)
		for _, key := range r.names(r.Soak) {
			require.Regexp(t, `\b`+key+`\s+= "/`, soak, r.Name)
		}
		if r.Soak[0] != '-' {
			require.Regexp(t, `zkrecipes\.(New)?`+r.Name+`\(|c\.`+r.Name+`\(`, soak, "a worker of internal/soak for %s", r.Name)
		}
		if r.Zkr[0] != '-' {
			require.Regexp(t, `(New|Recipe)`+r.Name+`\b`, text(t, r.Zkr), "%s for %s", r.Zkr, r.Name)
		}
	}
}

// What is in use is found, by the name that the Trace has.
func TestRecipesInUseAreFound(t *testing.T) {
	for _, r := range Recipes {
		for _, use := range r.names(r.Use) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				c := w.Stranger(nil)
				giveBack, err := recipetest.Recipes[use](t.Context(), c, "/used")
				require.NoError(t, err)
				recipetest.MembersLeft()
				var found []string
				for u, err := range w.Stranger(nil).Recipes(t.Context(), "/used", nil) {
					require.NoError(t, err)
					found = append(found, string(u.Recipe))
				}
				require.Equal(t, r.names(r.Look), found, use)
				require.NoError(t, giveBack())
			})
		}
	}
}

const root = "../.."

// text returns the text of the files.
func text(t *testing.T, pattern string) (all string) {
	files, err := filepath.Glob(filepath.Join(root, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		all += string(b)
	}
	return all
}

// all returns what the group matches.
func all(text, pattern string) (found []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// names returns the names in a field.
func (Recipe) names(field string) []string {
	if field[0] == '-' {
		return nil
	}
	return strings.Split(field, ", ")
}

// entered requires that the field of the table has the same names as another place.
func entered(t *testing.T, place string, there []string, field func(Recipe) string) {
	t.Helper()
	var here []string
	for _, r := range Recipes {
		here = append(here, r.names(field(r))...)
	}
	for _, list := range []*[]string{&here, &there} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	require.Equal(t, here, there, place)
}
