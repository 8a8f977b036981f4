package zkrecipes

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A queue's items lie in segments of about a hundred, each of which is a znode:
//
//	q/s/<n>               a segment; version 0 of its data: open, later: sealed
//	q/s/<n>/<id><seq>     an item, persistent and sequential
//	q/s/<n>/<id><seq>/c   its claim, ephemeral: excludes all others, and counts
//	q/s/<n>/<id><seq>.<u> the claim's flag, ephemeral: shows it in the listing
//
// One listing with its Stat so tells which items there are, which of them
// somebody has, and whether others follow in the next segment; and the watch on
// it hears of everything that can make an item free. There is one open segment,
// the last; with the put that seals it the next one is made.

// segmentItems is after how many creates, of items and of flags, a segment is
// sealed. Each take lists one: 1000 cost 20 kB an item, with a hundred it is 4.
const segmentItems = 100

// entryName is what a segment's child is called: the item's id, its number, and
// for a flag what tells claims of the item apart.
const (
	idLength   = 22
	itemLength = idLength + 10
	claimName  = "/c"
)

// newID returns 16 random bytes, as text that can stand in a path.
func newID() string { return randomText(16) }

// newMark returns what tells one claim from the others of the same item.
func newMark() string { return randomText(8) }

func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// itemNode is an item as its segment's listing shows it.
type itemNode struct {
	name   string
	number int64
	taken  bool // there is a flag
}

func (n itemNode) id() ItemID { return ItemID(n.name[:idLength]) }

// itemNodes returns the items among the names of a segment's children, in their
// order. Anything else is nobody's.
func itemNodes(children []string) []itemNode {
	nodes := make([]itemNode, 0, len(children))
	flags := map[string]bool{}
	for _, name := range children {
		if len(name) > itemLength && name[itemLength] == '.' {
			flags[name[:itemLength]] = true
			continue
		}
		if number, ok := itemNumber(name); ok {
			nodes = append(nodes, itemNode{name: name, number: number})
		}
	}
	for i := range nodes {
		nodes[i].taken = flags[nodes[i].name]
	}
	slices.SortFunc(nodes, func(a, b itemNode) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.name, b.name))
	})
	return nodes
}

func itemNumber(name string) (number int64, ok bool) {
	if len(name) != itemLength {
		return 0, false
	}
	number, err := strconv.ParseInt(name[idLength:], 10, 32)
	return number, err == nil && name[idLength] != '+'
}

// segmentName returns the name of the nth segment.
func segmentName(n int64) string { return fmt.Sprintf("%010d", n) }

// segmentNumbers returns the numbers of the segments among names, ascending.
func segmentNumbers(names []string) []int64 {
	var ns []int64
	for _, name := range names {
		if n, err := strconv.ParseInt(name, 10, 64); err == nil && n >= 0 && segmentName(n) == name {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	return ns
}
