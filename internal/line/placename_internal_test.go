package line_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/placename"
)

func TestOurNamesSortForCuratorAsForUs(t *testing.T) {
	// Curator sorts by what follows the last "lock-".
	numbers := []int32{0, 1, 9, 10, 99, 1_000_000_000, 2_147_000_000}
	var names []string
	for _, n := range numbers {
		names = append(names, fmt.Sprintf("_c_%s-lock-%010d", placename.NewUUID(true), n))
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(a[strings.LastIndex(a, "lock-")+5:], b[strings.LastIndex(b, "lock-")+5:])
	})
	for i, m := range placename.ParseAll(names, placename.LockKinds) {
		require.Equal(t, numbers[i], m.Number)
		require.True(t, i == 0 || placename.ParseAll(names, placename.LockKinds)[i-1].Compare(m) < 0)
		require.True(t, m.Signals())
	}
}
