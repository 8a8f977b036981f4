package look

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/barrier"
	groups "github.com/zkrecipes/zkrecipes/internal/group"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/line"
	"github.com/zkrecipes/zkrecipes/internal/queuelog"
	semaphores "github.com/zkrecipes/zkrecipes/internal/semaphore"
	plan "github.com/zkrecipes/zkrecipes/internal/shards"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// counters say how busy a recipe is.
var counters = map[string]func(*znode, *Usage) error{
	mutex: (*znode).countLock, rwlock: (*znode).countLock, election: (*znode).countElection, semaphore: (*znode).countSemaphore,
	barriers: (*znode).countBarrier, double: (*znode).countDouble, queue: (*znode).countQueue, gate: (*znode).countGate,
	group: (*znode).countGroup, shards: (*znode).countShards, counter: func(z *znode, u *Usage) error { return z.countWaiters(u, "/line") },
}

// countLock counts the places in the line. Those of a Mutex all block each other.
func (z *znode) countLock(u *Usage) (err error) {
	var holders, waiters, standing []layout.PlaceName
	for _, m := range places(z.names) {
		if m.Ours() && line.IsBeyondLimit(z.s.Client, m.Number) {
			continue
		}
		blocks := func(ahead layout.PlaceName) bool {
			return line.WritersBlock(m.Kind, ahead.Kind) && !m.SharesWith(ahead)
		}
		if slices.ContainsFunc(standing, blocks) {
			waiters = append(waiters, m)
		} else {
			holders = append(holders, m)
		}
		standing = append(standing, m)
	}
	u.Holders, u.Waiters = len(holders), len(waiters)
	return z.firstTimes(u, "", namesOf(holders), namesOf(waiters))
}

// firstTimes reads since when the first holder and the first waiter are there.
func (z *znode) firstTimes(u *Usage, below string, holders, waiters []string) (err error) {
	if len(holders) > 0 {
		u.HeldSince, err = z.oldest(below, holders[0])
	}
	if err == nil && len(waiters) > 0 {
		u.WaitingSince, err = z.oldest(below, waiters[0])
	}
	return err
}

func (z *znode) countElection(u *Usage) error {
	candidates := namesOf(places(z.names))
	if !z.has("leader") {
		u.Waiters = len(candidates)
		return z.firstTimes(u, "", nil, candidates)
	}
	u.Holders = 1
	if len(candidates) > 0 { // the first one is the leader's
		candidates = candidates[1:]
	}
	u.Waiters = len(candidates)
	return z.firstTimes(u, "", []string{"leader"}, candidates)
}

func (z *znode) countSemaphore(u *Usage) error {
	u.Size = z.size()
	slots, err := z.some("/slots")
	if err != nil {
		return err
	}
	taken := slices.Collect(maps.Keys(semaphores.SlotsAmong(slots)))
	holders := map[string]bool{} // by the acquisition
	for _, name := range taken {
		_, id, _ := strings.Cut(name, "-")
		holders[id] = true
	}
	u.Holders = len(holders)
	if u.HeldSince, err = z.oldest("/slots", taken...); err != nil {
		return err
	}
	return z.countWaiters(u, "/line")
}

// countWaiters adds those that stand in a line where nobody holds.
func (z *znode) countWaiters(u *Usage, below string) error {
	names, err := z.some(below)
	ms := places(names)
	if err != nil || len(ms) == 0 {
		return err
	}
	since, err := z.oldest(below, ms[0].Name)
	u.Waiters += len(ms)
	u.WaitingSince = earlier(u.WaitingSince, since)
	return err
}

func (z *znode) countBarrier(u *Usage) error {
	u.Size = z.size()
	names, err := z.some("/round")
	if err != nil {
		return err
	}
	ms := layout.ParsePlaces(names, barrier.MemberKinds)
	slices.SortFunc(ms, layout.PlaceName.Compare)
	opened, stat, err := []byte(nil), (*zk.Stat)(nil), error(nil)
	if len(ms) > 0 {
		opened, stat, err = z.s.Get(z.ctx, z.path+"/round/ready")
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	waiters := slices.DeleteFunc(ms, func(m layout.PlaceName) bool {
		_, _, excluded := barrier.IndexIn(opened, m.Number)
		return excluded == nil
	})
	u.Waiters, u.Holders = len(waiters), len(layout.ParsePlaces(names, barrier.MemberKinds))-len(waiters)
	if u.Holders > 0 {
		u.HeldSince = time.UnixMilli(stat.Mtime)
	}
	return z.firstTimes(u, "/round", nil, namesOf(waiters))
}

// countDouble reads all members: those that came before ready have entered.
func (z *znode) countDouble(u *Usage) error {
	members := slices.DeleteFunc(slices.Clone(z.names), func(name string) bool { return !z.owns(double, name) || name == "ready" })
	stats, err := z.stats("", append(members, "ready")...)
	if err != nil {
		return err
	}
	ready := stats[len(members)]
	for _, stat := range stats[:len(members)] {
		switch {
		case stat == nil:
		case ready != nil && stat.Czxid < ready.Czxid:
			u.Holders++
			u.HeldSince = time.UnixMilli(ready.Ctime)
		default:
			u.Waiters++
			u.WaitingSince = earlier(u.WaitingSince, time.UnixMilli(stat.Ctime))
		}
	}
	return nil
}

func (z *znode) countQueue(u *Usage) error {
	log := queuelog.New(queuelog.Config{Session: z.s.Session, Path: z.path})
	numbers, err := log.List(z.ctx)
	if err != nil {
		return err
	}
	segments, errs := make([][]queuelog.Entry, len(numbers)), make([]error, len(numbers))
	zkconn.AtATime(len(numbers), func(i int) {
		names, err := z.some(log.Segment(numbers[i])[len(z.path):])
		segments[i], errs[i] = queuelog.Entries(names), err
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, items := range segments {
		below := log.Segment(numbers[i])[len(z.path):]
		var flags []string
		for _, it := range items {
			if it.Claimed {
				flags = append(flags, it.Flag)
			}
		}
		held, err := z.oldest(below, flags...)
		if err == nil && u.ItemSince.IsZero() && len(items) > 0 {
			u.ItemSince, err = z.oldest(below, items[0].Name)
		}
		if err != nil {
			return err
		}
		u.Len += len(items)
		u.Holders += len(flags)
		u.HeldSince = earlier(u.HeldSince, held)
	}
	if err := z.countWaiters(u, "/line"); err != nil {
		return err
	}
	return z.countWaiters(u, "/room")
}

// countGate is for a gate that is shut. Who waits is known to the servers alone.
func (z *znode) countGate(u *Usage) error {
	u.HeldSince = time.UnixMilli(z.stat.Ctime)
	return nil
}

// countShards reads all members, which say which shards they have.
func (z *znode) countShards(u *Usage) error {
	size, _ := plan.ParseSize(z.data)
	u.Size = size.N
	present, err := groups.List(z.ctx, z.s, z.path+"/members")
	owned := map[int]bool{}
	for _, p := range present {
		claims, _ := plan.ParseClaims(p.Data)
		for _, shard := range slices.Concat(claims.Held, claims.Leaving) {
			owned[shard] = true
		}
		if p.Stat.Ctime != 0 { // else it may not be read
			u.HeldSince = earlier(u.HeldSince, time.UnixMilli(p.Stat.Ctime))
		}
	}
	u.Holders = len(owned)
	return err
}

// countGroup reads all members.
func (z *znode) countGroup(u *Usage) error {
	stats, err := z.stats("", z.names...)
	for _, stat := range stats {
		if isEphemeral(stat) {
			u.Holders++
			u.HeldSince = earlier(u.HeldSince, time.UnixMilli(stat.Ctime))
		}
	}
	return err
}
