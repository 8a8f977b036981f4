package main

import "slices"

// spread is the median of some figures and the bounds of their middle half.
type spread struct{ Low, Median, High float64 }

// spreadOf returns zeros for no figures.
func spreadOf(figures []float64) spread {
	sorted := slices.Sorted(slices.Values(figures))
	at := func(q float64) float64 {
		if len(sorted) == 0 {
			return 0
		}
		where := q * float64(len(sorted)-1)
		i := int(where)
		if i+1 == len(sorted) {
			return sorted[i]
		}
		part := where - float64(i)
		return sorted[i]*(1-part) + sorted[i+1]*part
	}
	return spread{at(0.25), at(0.5), at(0.75)}
}
