package sim

// match assigns to each of n a different one of m, such that may allows each pair.
// It returns one of the n that cannot be assigned, or -1 if all can. (Kuhn's
// algorithm for bipartite matching.)
func match(n, m int, may func(i, j int) bool) int {
	owner := make([]int, m)
	for j := range owner {
		owner[j] = -1
	}
	for i := range n {
		seen := make([]bool, m)
		var try func(i int) bool
		try = func(i int) bool {
			for j := range m {
				if seen[j] || !may(i, j) {
					continue
				}
				seen[j] = true
				if owner[j] < 0 || try(owner[j]) {
					owner[j] = i
					return true
				}
			}
			return false
		}
		if !try(i) {
			return i
		}
	}
	return -1
}
