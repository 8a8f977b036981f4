// Package queuelog keeps a queue's items in segments: it appends items at the
// tail, scans segments from the head, and makes receipts, by which a transaction
// that is sent again tells whether it was carried out before. It shows claims,
// which the consumers make.
//
// Below the queue's path q:
//
//	q/s/<n>               a segment; data version 0 means open, above 0 sealed
//	q/s/<n>/<id><seq>     an item, persistent and sequential
//	q/s/<n>/<id>~<seq>    one whose data begin with a note, as dead letters' do
//	q/s/<n>/<id><seq>/c   a claim's exclusion, ephemeral: refuses other claims
//	q/s/<n>/<id><seq>.<u> a claim's flag, ephemeral: shows the claim in the listing
//	q/s/<n>/<id><seq>.done an item that is acked or moved, and could not be deleted
//	q/puts/<receipt>      a receipt, ephemeral, of a put or an ack
//
// Beside them stand q/line and q/room, the consumers' and the producers' lines.
//
// A segment is a part of the log with about a hundred items. A claim is the two ephemeral znodes with
// which a consumer has an item.
//
// One listing of a segment and its Stat tell which items there are, which of them
// are claimed, and whether another segment follows. A watch on its children fires on
// everything that can make an item free. Only the last segment is open. The append
// that seals it creates the next one.
package queuelog

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
)

// SegmentSize is after how many creates, of items and of flags, a segment is
// sealed. Each take lists one segment: it receives 4 kB with 100, 20 kB with 1,000.
const SegmentSize = 100

// Parts of the name of a segment's child: the item's id, its number, and for a flag
// a dot and what tells claims of the item apart.
const (
	IDLength   = 22
	nameLength = IDLength + 10
)

// noteMark stands behind the id in the name of an item whose data begin with a note. So
// no data that somebody puts can be taken for a note.
const noteMark = "~"

// ClaimName is what follows an item's path in that of a claim's exclusion.
const ClaimName = "/c"

// DoneName is what follows an item's path in that of the mark of an item that is done. It
// is used where somebody has created znodes below the item, so that it cannot be deleted.
// A persistent exclusion stands below the item then. To clean up, delete what is below
// the item, the item and at last the mark.
const DoneName = ".done"

// NewID returns 16 random bytes, as text that can stand in a path, and that no command takes for a flag.
func NewID() string {
	for {
		if id := randomText(16); id[0] != '-' {
			return id
		}
	}
}

// NewMark returns what tells one claim from other claims of the same item.
func NewMark() string { return randomText(8) }

func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Entry is an item in its segment's listing.
type Entry struct {
	Name    string
	Claimed bool   // there is a flag
	Flag    string // its name, and of several any

	number int64
}

// ID returns the item's id.
func (e Entry) ID() string { return e.Name[:IDLength] }

// Entries returns the items among the names of a segment's children, in their order.
// It ignores items that are done, and children of other names.
func Entries(children []string) []Entry {
	entries := make([]Entry, 0, len(children))
	flags, done := map[string]string{}, map[string]bool{}
	for _, name := range children {
		item, mark, beside := strings.Cut(name, ".")
		number, ok := itemNumber(item)
		switch {
		case !ok:
		case beside:
			flags[item] = name
			if "."+mark == DoneName {
				done[item] = true
			}
		default:
			entries = append(entries, Entry{Name: name, number: number})
		}
	}
	if len(done) > 0 {
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return done[e.Name] })
	}
	for i := range entries {
		entries[i].Flag, entries[i].Claimed = flags[entries[i].Name]
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.Name, b.Name))
	})
	return entries
}

// itemNumber returns the number in an item's name. The numbers of one transaction are
// negative behind the end of the segment's counter, and then have a digit more. Read as
// unsigned they are in order.
func itemNumber(name string) (number int64, ok bool) {
	if HasNote(name) {
		name = name[:IDLength] + name[IDLength+len(noteMark):]
	}
	if len(name) != nameLength && (len(name) != nameLength+1 || name[IDLength] != '-') {
		return 0, false
	}
	number, err := strconv.ParseInt(name[IDLength:], 10, 32)
	return int64(uint32(number)), err == nil && name[IDLength] != '+'
}

// HasNote reports whether the data of the item with that name begin with a note. It may
// be the name of a flag of the item's, too.
func HasNote(name string) bool {
	return len(name) > IDLength && strings.HasPrefix(name[IDLength:], noteMark)
}

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

// Creates returns how many children a znode has ever had. Its cversion counts those
// that were created and those that were deleted (DataNode.copyStat).
func Creates(stat *zk.Stat) int64 {
	return (int64(uint32(stat.Cversion)) + int64(stat.NumChildren)) / 2
}

// Claims returns how often an item was claimed for a consumer that got it. claimed: it is claimed
// now, so one of its children is the exclusion. The others are foreign. A foreign child that was
// deleted looks like a claim that has ended, and counts. A claim that ends before a consumer has
// got the item writes the item's data: so their version counts those.
func Claims(stat *zk.Stat, claimed bool) int {
	foreign, least := int64(stat.NumChildren), int64(0)
	if claimed && foreign > 0 {
		foreign--
		least = 1
	}
	return int(max(Creates(stat)-foreign-int64(stat.Version), least)) // somebody may have written the data
}
