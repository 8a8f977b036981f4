package zkrecipes

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// ready holds the members as ranges of their sequence numbers ("0-3,5"), so that
// what each of them reads does not grow with their number.

// ranges writes the numbers of members, which are in order.
func ranges(ms []placeName) []byte {
	var b []byte
	for i := 0; i < len(ms); {
		j := i
		for j+1 < len(ms) && ms[j+1].number == ms[j].number+1 {
			j++
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(ms[i].number), 10)
		if j > i {
			b = strconv.AppendInt(append(b, '-'), int64(ms[j].number), 10)
		}
		i = j + 1
	}
	return b
}

// indexIn returns how many numbers stand before number, or errExcluded.
func indexIn(data []byte, number int32) (int, error) {
	index := 0
	for part := range bytes.SplitSeq(data, []byte{','}) {
		from, to, ok := strings.Cut(string(part), "-")
		if !ok {
			to = from
		}
		a, err := strconv.ParseInt(from, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%w: %.40q", errWritten, data)
		}
		b, err := strconv.ParseInt(to, 10, 32)
		if err != nil || b < a {
			return 0, fmt.Errorf("%w: %.40q", errWritten, data)
		}
		switch n := int64(number); {
		case n < a:
			return 0, errExcluded
		case n <= b:
			return index + int(n-a), nil
		}
		index += int(b-a) + 1
	}
	return 0, errExcluded
}

// openingSize returns the size of a transaction that opens a round, at most.
func openingSize(round string, n int) int {
	const header = 4 + 1 + 4
	member := header + 4 + len(round) + len("/_c_-member-0123456789") + 36 + 4
	ready := header + 4 + len(round) + len("/ready") + 4 + 4
	n = min(n, jute.MaxFrame) // more is too large anyway
	return 8 + header + ready + n*(member+len("0123456789,"))
}

// checkMembers refuses a number of members that is none, or for which there is no
// room in the transaction that lets them go.
func checkMembers(recipe string, n, size int) error {
	switch {
	case n < 1:
		return fmt.Errorf("a %s of %d members", recipe, n)
	case size > jute.MaxFrame:
		return fmt.Errorf("a %s of %d members: %w", recipe, n, zkconn.TooLarge(size))
	}
	return nil
}
