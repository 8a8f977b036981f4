package sim

// match gives each of n one of m of its own, as may allows, and returns one of
// the n for which none is left; -1 if there is none such. (Kuhn's algorithm.)
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
