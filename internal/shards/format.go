package shards

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/errs"
	"github.com/zkrecipes/zkrecipes/internal/layout"
)

// Claims is what a member tells of itself: the data of its znode.
//
//	has 0-3,7 leaves 9
type Claims struct {
	Held    []int
	Leaving []int // on which it works, too, and which it is about to give up, or has lost
}

// Bytes returns the data of the member's znode.
func (c Claims) Bytes() []byte {
	return []byte("has " + ranges(c.Held) + " leaves " + ranges(c.Leaving))
}

// ParseClaims returns what a member tells. false: it is no member that works on shards.
func ParseClaims(data []byte) (c Claims, ok bool) {
	held, leaving, ok := strings.Cut(string(data), " leaves ")
	held, has := strings.CutPrefix(held, "has ")
	if !ok || !has {
		return Claims{}, false
	}
	if c.Held, ok = parseRanges(held); !ok {
		return Claims{}, false
	}
	c.Leaving, ok = parseRanges(leaving)
	return c, ok
}

// ranges writes numbers as ranges, "-" for none.
func ranges(numbers []int) string {
	return cmp.Or(string(layout.AppendRanges(nil, slices.Sorted(slices.Values(numbers)))), "-")
}

// Max is how many shards there may be.
const Max = 100_000

func parseRanges(text string) (numbers []int, ok bool) {
	if text == "-" {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(high)
		}
		if err != nil || first < 0 || last < first || last >= Max || len(numbers)+last-first >= Max {
			return nil, false
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	return numbers, true
}

// Size is the number of shards, as the path's znode has it. Next is the number to which it is about
// to change, 0 if it is not.
type Size struct{ N, Next int }

const sizeMark = "zkrecipes/1 shards "

// Bytes returns the data of the path's znode.
func (s Size) Bytes() []byte {
	if s.Next == 0 {
		return fmt.Append(nil, sizeMark, s.N)
	}
	return fmt.Append(nil, sizeMark, s.N, " to ", s.Next)
}

// ParseSize returns what the data of the path's znode say. false: they are something else.
func ParseSize(data []byte) (s Size, ok bool) {
	text, ok := strings.CutPrefix(string(data), sizeMark)
	now, next, changes := strings.Cut(text, " to ")
	n, err := strconv.Atoi(now)
	if err == nil && changes {
		s.Next, err = strconv.Atoi(next)
		ok = ok && s.Next >= 1 && s.Next <= Max
	}
	s.N = n
	return s, ok && err == nil && n >= 1 && n <= Max
}

// WrongSize returns the error of a process that has n shards where there are right ones.
func WrongSize(right, n int) error {
	return fmt.Errorf("%w: there are %d shards, and %d are used", errs.ErrSize, right, n)
}
