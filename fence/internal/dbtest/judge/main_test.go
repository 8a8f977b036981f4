package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheVerdictFindsEachRuleThatIsBroken(t *testing.T) {
	good := []row{{1, 1, 5, "a"}, {2, 2, 5, "b"}, {3, 3, 8, "c"}}
	told := map[string]outcome{"a": written, "b": uncertain, "c": written, "d": refused, "e": failed, "f": uncertain}
	fenced := compare(good, told)
	fenced.fenced = true
	require.NoError(t, fenced.err())
	require.Zero(t, fenced.broken())
	require.Equal(t, 2, fenced.holders)
	require.Error(t, compare(good, told).err(), "without the fence something must be broken")

	for name, test := range map[string]struct {
		rows  []row
		told  map[string]outcome
		count func(*verdict) int
	}{
		"a token that goes back":      {[]row{{1, 1, 8, "a"}, {2, 2, 5, "b"}}, nil, func(v *verdict) int { return v.back }},
		"a job of two holders":        {[]row{{1, 1, 5, "a"}, {2, 1, 8, "b"}}, nil, func(v *verdict) int { return v.twice }},
		"a job that is missing":       {[]row{{1, 1, 5, "a"}, {2, 3, 5, "b"}}, nil, func(v *verdict) int { return v.gaps }},
		"a row that was written":      {nil, map[string]outcome{"a": written}, func(v *verdict) int { return v.missing }},
		"a row that was refused":      {[]row{{1, 1, 5, "a"}}, map[string]outcome{"a": refused}, func(v *verdict) int { return v.unsaid }},
		"a row that was said to fail": {[]row{{1, 1, 5, "a"}}, map[string]outcome{"a": failed}, func(v *verdict) int { return v.unsaid }},
	} {
		t.Run(name, func(t *testing.T) {
			v := compare(test.rows, test.told)
			v.fenced, v.refused = true, 1
			require.Equal(t, 1, test.count(v))
			require.Error(t, v.err())
		})
	}
	idle := compare(good, nil)
	idle.fenced = true
	require.ErrorContains(t, idle.err(), "no write was refused")
}
