// Package shards plans which member works on which shard, and has the formats of what members tell
// each other.
package shards

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Member is a process that works on shards.
type Member struct {
	ID      string
	Session int64
	Joined  int64 // zxid of the transaction that created its znode: no two members have the same
	Claims        // it cannot take what it is leaving, since a function has not returned
}

// Plan returns for each of n shards the member that is to have it, as an index into members, which it
// sorts by age. All who know the same members compute the same plan.
//
// The shards are shared out evenly: the oldest members have one more if it does not come out even.
// A member keeps what it has up to its share. So one that joins, as the youngest, takes its share
// and nothing else moves; and when one leaves, the shares of the others only grow. What nobody
// keeps goes to the member with room that scores highest for it (rendezvous hashing), so that
// clients with slightly different views agree on most shards. If it were planned for weights, only
// shares would change.
//
// A member that cannot take a shard does not get it, if there is another one. So the others may have
// more than their shares meanwhile.
func Plan(n int, members []Member) (owner []int) {
	owner = slices.Repeat([]int{-1}, n)
	if len(members) == 0 {
		return owner
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Joined, b.Joined), cmp.Compare(a.ID, b.ID))
	})
	p := newPlanning(n, members)
	for i, m := range members {
		for _, shard := range p.byScore(m) {
			switch {
			case shard >= n || owner[shard] >= 0:
				// Two may say so of one shard for a moment: the older one is taken at its word.
			case p.room[i] > 0:
				owner[shard] = i
				p.room[i]--
			default:
				p.above[shard] = i
			}
		}
	}
	for shard := range owner {
		if owner[shard] < 0 {
			owner[shard] = p.choose(shard)
			p.room[owner[shard]]--
		}
	}
	return owner
}

// planning is what a plan is made from.
type planning struct {
	members []Member
	room    []int          // how many shards are left of each member's share; less than 0: it has more
	leaving []map[int]bool // the shards that each member cannot take
	left    map[int]bool   // those that any member cannot take
	above   map[int]int    // the member that has a shard for which it has no room
}

func newPlanning(n int, members []Member) *planning {
	p := &planning{
		members: members, room: make([]int, len(members)), leaving: make([]map[int]bool, len(members)),
		left: map[int]bool{}, above: map[int]int{},
	}
	for i, m := range members {
		p.room[i] = Share(n, len(members), i)
		p.leaving[i] = make(map[int]bool, len(m.Leaving))
		for _, shard := range m.Leaving {
			p.leaving[i][shard], p.left[shard] = true, true
		}
	}
	return p
}

// Share returns how many of n shards the member of that rank by age has, of so many members.
func Share(n, members, rank int) int {
	share := n / members
	if rank < n%members {
		share++
	}
	return share
}

// byScore returns what a member has: first what another one cannot take, and in each part what it
// scores highest for first.
func (p *planning) byScore(m Member) []int {
	scores := make(map[int]uint64, len(m.Held))
	for _, shard := range m.Held {
		scores[shard] = score(m, shard)
	}
	held := slices.Clone(m.Held)
	slices.SortFunc(held, func(a, b int) int {
		switch {
		case p.left[a] == p.left[b]:
			return cmp.Compare(scores[b], scores[a])
		case p.left[a]:
			return -1
		}
		return 1
	})
	return held
}

// choose returns the member that is to have a shard that nobody keeps: one with room that can take it.
// If there is none, it stays where it is, or goes to another one that can take it, or to one that
// will be able to.
func (p *planning) choose(shard int) (best int) {
	hasRoom := func(i int) bool { return p.room[i] > 0 }
	canTake := func(i int) bool { return !p.leaving[i][shard] }
	if best = p.highest(shard, func(i int) bool { return hasRoom(i) && canTake(i) }); best >= 0 {
		return best
	}
	if has, ok := p.above[shard]; ok {
		return has
	}
	if best = p.highest(shard, canTake); best >= 0 {
		return best
	}
	return p.highest(shard, hasRoom)
}

// highest returns the member that scores highest for the shard, of those that fit; -1: none does.
func (p *planning) highest(shard int, fits func(i int) bool) (best int) {
	best = -1
	var most uint64
	for i, m := range p.members {
		if !fits(i) {
			continue
		}
		if s := score(m, shard); best < 0 || s > most {
			best, most = i, s
		}
	}
	return best
}

func score(m Member, shard int) uint64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(m.ID), uint64(shard)))
	return binary.BigEndian.Uint64(sum[:])
}
