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
	Held    []int // the shards that it has
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
func Plan(n int, members []Member) (owner []int) {
	owner = slices.Repeat([]int{-1}, n)
	if len(members) == 0 {
		return owner
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Joined, b.Joined), cmp.Compare(a.ID, b.ID))
	})
	room := make([]int, len(members))
	for i, m := range members {
		room[i] = Share(n, len(members), i)
		for _, shard := range byScore(m) {
			// Two may say so of one shard for a moment: the older one is taken at its word.
			if room[i] > 0 && shard < n && owner[shard] < 0 {
				owner[shard] = i
				room[i]--
			}
		}
	}
	for shard := range owner {
		if owner[shard] < 0 {
			owner[shard] = choose(shard, members, room)
			room[owner[shard]]--
		}
	}
	return owner
}

// Share returns how many of n shards the member of that rank by age has, of so many members.
func Share(n, members, rank int) int {
	share := n / members
	if rank < n%members {
		share++
	}
	return share
}

// byScore returns what a member has, what it scores highest for first.
func byScore(m Member) []int {
	scores := make(map[int]uint64, len(m.Held))
	for _, shard := range m.Held {
		scores[shard] = score(m, shard)
	}
	held := slices.Clone(m.Held)
	slices.SortFunc(held, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return held
}

// choose returns the member with room that scores highest for the shard.
func choose(shard int, members []Member, room []int) (best int) {
	best = -1
	var most uint64
	for i, m := range members {
		if room[i] == 0 {
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
