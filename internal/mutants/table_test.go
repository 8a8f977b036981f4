package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryMutantAppliesAndCompiles(t *testing.T) {
	mutants, err := named(nil)
	require.NoError(t, err)
	src, err := readSource("../..", modules...)
	require.NoError(t, err)
	require.NoError(t, checkAll(t.Context(), src, mutants))
}

func TestAnUnknownNameIsAnError(t *testing.T) {
	mutants, err := named([]string{"gate-open"})
	require.NoError(t, err)
	require.Len(t, mutants, 1)
	_, err = named([]string{"gate-open", "gate-opne"})
	require.ErrorContains(t, err, `"gate-opne"`)
}
