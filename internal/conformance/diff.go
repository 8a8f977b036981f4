package conformance

import (
	"fmt"
	"strings"
)

// Diff returns a line diff that turns want into got, with a few lines of context.
// It returns "" if they are equal.
func Diff(want, got []string) string {
	common := commonSubsequences(want, got)
	if n := common[0][0]; n == len(want) && n == len(got) {
		return ""
	}
	var lines []string
	var changed []int // indexes of lines that differ
	for i, j := 0, 0; i < len(want) || j < len(got); {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			lines = append(lines, "  "+want[i])
			i, j = i+1, j+1
		case j == len(got) || i < len(want) && common[i+1][j] >= common[i][j+1]:
			changed = append(changed, len(lines))
			lines = append(lines, "- "+want[i])
			i++
		default:
			changed = append(changed, len(lines))
			lines = append(lines, "+ "+got[j])
			j++
		}
	}
	return withContext(lines, changed)
}

// commonSubsequences returns at [i][j] the length of the longest common
// subsequence of want[i:] and got[j:]. Transcripts have some hundred lines at
// most.
func commonSubsequences(want, got []string) [][]int {
	common := make([][]int, len(want)+1)
	for i := range common {
		common[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if want[i] == got[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	return common
}

// withContext returns the changed lines and those around them.
func withContext(lines []string, changed []int) string {
	const around = 3
	var b strings.Builder
	last := -1 // the last line that was written
	for _, at := range changed {
		from := max(at-around, last+1)
		if from > last+1 {
			fmt.Fprintf(&b, "  ... (%d lines)\n", from-last-1)
		}
		for ; from <= min(at+around, len(lines)-1); from++ {
			b.WriteString(lines[from] + "\n")
			last = from
		}
	}
	return b.String()
}
