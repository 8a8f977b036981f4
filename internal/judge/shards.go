package judge

import (
	"maps"
	"slices"
	"time"
)

// RecipeShards is the Recipe of shards, of which the owners write to each all the time. What waits
// for one is not reported.
const RecipeShards = "shards"

// shards judges who writes to the shards. That each has one owner at a time is judged as for a lock:
// by the holds (exclusion) and by the fenced transactions (fence).
type shards struct {
	j  *Judge
	by map[string]*shard // by Key

	expired time.Duration // when a process has lost its session last
	resting bool          // nobody writes any more
}

// shard is what is known of one. Its owner is who has the highest token.
type shard struct {
	token   int64 // 0: it has had no owner
	process int
	wrote   time.Duration // last, its owner or one before
	writer  int64         // the token of that
	told    bool
}

func newShards(j *Judge) shards {
	s := shards{j: j, by: map[string]*shard{}}
	for _, key := range j.cfg.Shards {
		s.by[key] = &shard{}
	}
	return s
}

func (s *shards) take(e Event) {
	one := s.by[e.Key]
	switch {
	case e.Kind == Expired:
		s.expired = e.At
	case e.Kind == Resting:
		s.resting = true
	case one == nil:
	case e.Kind == Granted && e.Token > one.token:
		one.token, one.process = e.Token, e.Process
	case e.Kind == Committed && e.Token >= one.writer: // another one may be reported late
		one.wrote, one.writer, one.told = max(one.wrote, e.At), e.Token, false
	}
}

// shares returns how many shards each process has.
func (s *shards) shares() map[int]int {
	shares := map[int]int{}
	for _, one := range s.by {
		if one.token != 0 {
			shares[one.process]++
		}
	}
	return shares
}

// look reports shards to which nobody writes.
func (s *shards) look(now time.Duration) {
	if s.resting || now-s.j.served.lastWrite > outageFrom { // which may be an outage
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.by)) {
		one := s.by[key]
		if quiet := now - max(one.wrote, s.j.served.calm); quiet > s.j.Bound() && !one.told {
			one.told = true
			s.j.violation(now, "owner", []string{key}, "%s: no owner has written for %v; the ensemble serves, the bound is %v", key, quiet, s.j.Bound())
		}
	}
}

// Even judges that so many processes have shards, and each as many as the others, or one more. at must
// be a moment at which there are no faults. It returns false if it is not so. Shards move after an
// outage, a fault of a process, and the end of a session, so it is not judged for a Bound after these.
func (j *Judge) Even(at time.Duration, processes int) bool {
	shares, n := j.shards.shares(), len(j.shards.by)
	if at-j.served.lastWrite > outageFrom || at-max(j.served.calm, j.shards.expired) < j.Bound() || n == 0 {
		return true
	}
	even := Evenly(shares, n, processes)
	if !even {
		j.violation(at, "even", j.cfg.Shards, "%d processes have these of %d shards, by their numbers: %v", processes, n, shares)
	}
	return even
}

// Evenly reports whether the shares are those of so many processes in n shards: each has as many as the
// others, or one more.
func Evenly[P comparable](shares map[P]int, n, processes int) bool {
	even := len(shares) == min(n, processes)
	for _, share := range shares {
		even = even && (share == n/processes || share == (n+processes-1)/processes)
	}
	return even
}
