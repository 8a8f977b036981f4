package shards

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// carryOut gives each member what the plan gives it, and returns how many shards have moved between
// members that stay, and how many have got an owner that had none.
func carryOut(t *testing.T, n int, members []Member) (moved, taken int) {
	t.Helper()
	had := map[int]string{}
	for _, m := range members {
		for _, shard := range m.Held {
			had[shard] = m.ID
		}
	}
	owner := Plan(n, members)
	for i := range members {
		members[i].Held = nil
	}
	for shard, i := range owner {
		members[i].Held = append(members[i].Held, shard)
		switch had[shard] {
		case members[i].ID:
		case "":
			taken++
		default:
			moved++
		}
	}
	for rank, m := range members {
		require.Len(t, m.Held, Share(n, len(members), rank))
	}
	return moved, taken
}

// Whoever comes takes its share and nothing else moves; when somebody goes, what it had is taken,
// and nothing moves.
func TestAPlanIsEvenAndMovesTheLeastThatItCan(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, zxid := 1+r.IntN(200), int64(0)
		members := []Member{{ID: "first"}}
		moved, taken := carryOut(t, n, members)
		require.Equal(t, []int{0, n}, []int{moved, taken})
		for range 40 {
			if r.IntN(2) == 0 || len(members) == 1 {
				zxid++
				members = append(members, Member{ID: fmt.Sprint(zxid), Joined: zxid})
				moved, taken = carryOut(t, n, members)
				require.Equal(t, 0, taken)
				require.Equal(t, Share(n, len(members), len(members)-1), moved)
				continue
			}
			i := r.IntN(len(members))
			had := len(members[i].Held)
			members = slices.Delete(members, i, i+1)
			moved, taken = carryOut(t, n, members)
			require.Equal(t, []int{0, had}, []int{moved, taken})
		}
	}
}

// A plan of which a part is carried out, in any order, stays what it was.
func TestAPlanStaysWhatItIsWhileItIsCarriedOut(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 1 + r.IntN(60)
		var members []Member
		free := r.Perm(n)
		for i := range 1 + r.IntN(8) {
			k := r.IntN(len(free) + 1)
			members = append(members, Member{ID: fmt.Sprint(i), Joined: int64(i), Claims: Claims{Held: free[:k]}})
			free = free[k:]
		}
		want := Plan(n, members)
		for _, shard := range r.Perm(n) {
			for i := range members { // whoever has it lets go, before another one takes it
				members[i].Held = slices.DeleteFunc(slices.Clone(members[i].Held), func(s int) bool { return s == shard && want[s] != i })
			}
			require.Equal(t, want, Plan(n, members))
			if i := want[shard]; !slices.Contains(members[i].Held, shard) {
				members[i].Held = append(members[i].Held, shard)
			}
			require.Equal(t, want, Plan(n, members))
		}
	}
}

// A member gets a shard that it cannot take only if nobody can, and plans that are carried out come to
// an end.
func TestAMemberGetsNoShardThatItCannotTake(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		n := 1 + r.IntN(60)
		var members []Member
		free := r.Perm(n)
		for i := range 1 + r.IntN(6) {
			k := r.IntN(len(free) + 1)
			m := Member{ID: fmt.Sprint(i), Joined: int64(i), Claims: Claims{Held: free[:k]}}
			free = free[k:]
			m.Leaving = slices.DeleteFunc(r.Perm(n)[:r.IntN(n+1)], func(s int) bool { return slices.Contains(m.Held, s) })
			members = append(members, m)
		}
		var last []int
		for steps := 0; ; steps++ {
			require.Less(t, steps, 5, "seed %d", seed)
			owner := Plan(n, members)
			for shard, i := range owner {
				if slices.Contains(members[i].Leaving, shard) {
					for _, m := range members {
						require.Contains(t, m.Leaving, shard, "seed %d", seed)
					}
				}
			}
			if slices.Equal(owner, last) {
				break
			}
			last = owner
			for i := range members {
				members[i].Held = nil
			}
			for shard, i := range owner {
				if !slices.Contains(members[i].Leaving, shard) {
					members[i].Held = append(members[i].Held, shard)
				}
			}
		}
	}
}

func TestWhatMembersTellIsReadBack(t *testing.T) {
	for text, c := range map[string]Claims{
		"has - leaves -":           {},
		"has 0-3,7 leaves 9":       {[]int{0, 1, 2, 3, 7}, []int{9}},
		"has 5 leaves 0-1,3-4,100": {[]int{5}, []int{0, 1, 3, 4, 100}},
	} {
		require.Equal(t, text, string(c.Bytes()))
		back, ok := ParseClaims([]byte(text))
		require.True(t, ok)
		require.Equal(t, c, back)
	}
	for _, text := range []string{"", "10.0.0.7:9000", "has 1", "has 2-1 leaves -", "has -1 leaves -", "has 0-100000 leaves -", "has x leaves -", "has 0-99999,0-99999 leaves -"} {
		_, ok := ParseClaims([]byte(text))
		require.False(t, ok, text)
	}
	for text, s := range map[string]Size{"zkrecipes/1 shards 16": {N: 16}, "zkrecipes/1 shards 16 to 32": {16, 32}} {
		require.Equal(t, text, string(s.Bytes()))
		back, ok := ParseSize([]byte(text))
		require.True(t, ok)
		require.Equal(t, s, back)
	}
	for _, text := range []string{"", "16", "zkrecipes/1 shards", "zkrecipes/1 shards 0", "zkrecipes/1 shards 1 to 0", "zkrecipes/1 shards 100001", "zkrecipes/1 mutex"} {
		_, ok := ParseSize([]byte(text))
		require.False(t, ok, text)
	}
}
