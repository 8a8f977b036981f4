package zkrecipes

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/group"
	"github.com/zkrecipes/zkrecipes/internal/layout"
	"github.com/zkrecipes/zkrecipes/internal/shards"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// opShard tells the locks that a process holds for as long as it serves from those of others.
const opShard = "shard"

// shardServer is a call of Shards.Serve.
type shardServer struct {
	*Shards
	f      func(context.Context, *Shard) error
	member *Membership // nil: it has not joined
	unseen *time.Timer // runs, or has run out, while the process does not see itself among the members

	wake chan struct{} // has one if works, or what the member is to tell, may have changed
	tell chan struct{} // likewise, for the goroutine that tells
	told sync.WaitGroup
	stop context.CancelFunc // of that goroutine

	mu    sync.Mutex
	works map[int]*shardWork
}

// shardWork is a shard that this process has, or stands in line for.
type shardWork struct {
	number int
	cancel context.CancelCauseFunc
	// Of the server's mutex:
	lease  *Lease    // nil: it stands in line
	leaves time.Time // since when it is to give the shard up; zero: it is not
	lost   time.Time // since when its function works on although the shard is lost; zero: it is not
	logged time.Time // when there was a warning of either
}

// ends returns since when the function should have returned; zero: it works.
func (w *shardWork) ends() time.Time { return cmp.Or(w.leaves, w.lost) }

const (
	// hungAfter is how long a function may take to return before, and between, warnings.
	hungAfter = 10 * time.Second
	// lostAfter is how long it may work on, when its shard is lost, before others are told.
	lostAfter = time.Second
	// maxSettles is how many times Settle members that come and go all the time are waited for.
	maxSettles = 10
	// The pauses before a shard is taken again whose function has returned.
	firstShardPause, lastShardPause = time.Second, 30 * time.Second
)

// serveSize works until the number of shards changes, or the session or ctx ends.
func (sv *shardServer) serveSize(ctx context.Context) error {
	size, n, err := sv.enter(ctx)
	if err != nil {
		return err
	}
	defer size.releaseWithin(ctx, size.Release)
	sv.noteSeen(false)
	working, end := context.WithCancelCause(size.Context(ctx))
	defer end(nil)
	failed := make(chan error, 3)
	fail := func(err error) {
		failed <- err
		end(ErrMoved) // its cause is another one if it has ended
	}
	var followers sync.WaitGroup
	// Before it joins, which may take for as long as another member has the id: meanwhile it holds size.
	followers.Go(func() { fail(sv.followSize(working, n)) })
	if err := sv.join(working); err != nil {
		fail(err)
	} else {
		views := make(chan []shards.Member)
		followers.Go(func() { fail(sv.followMembers(working, views)) })
		sv.workOnPlans(working, n, views)
	}
	followers.Wait()
	sv.noteSeen(true) // until there is a view again
	err = <-failed
	held := size.Context(context.WithoutCancel(ctx))
	if ctx.Err() != nil {
		sv.leave(ctx) // so that others stand in line, before the functions have returned
		held = context.WithoutCancel(ctx)
	}
	sv.drain(held)
	if held.Err() != nil || errors.Is(err, ErrMoved) {
		return nil // it goes on, in the next session or with another number
	}
	return err
}

// enter returns a lease without which the process works on no shard, and the number of shards, which
// does not change while it is held.
func (sv *shardServer) enter(ctx context.Context) (l *Lease, n int, err error) {
	for {
		if l, err = sv.sizeLock().self().acquire(ctx, opShard, layout.KindRead); err != nil {
			return nil, 0, err
		}
		if n, err = sv.settleSize(ctx, l); err == nil && n > 0 {
			return l, n, nil
		}
		_ = l.releaseWithin(ctx, l.Release)
		if err != nil && (ctx.Err() != nil || !isOvertaken(err)) {
			return nil, 0, err
		}
	}
}

// settleSize returns the number of shards. 0: it was written, or a change was carried out, so it must
// be read again, with another lease.
func (sv *shardServer) settleSize(ctx context.Context, l *Lease) (n int, err error) {
	data, _, err := l.Get(ctx, sv.path)
	size, ok := shards.ParseSize(data)
	switch {
	case err != nil:
		return 0, err
	case ok && size.Next == 0:
		return size.N, sv.agree(size.N)
	case ok:
		if err := l.releaseWithin(ctx, l.Release); err != nil {
			return 0, err
		}
		return 0, sv.finishResize(ctx)
	case len(data) == 0:
		return 0, sv.writeFirst(ctx, l, sv.size())
	}
	return 0, errNoShards(data)
}

// agree returns ErrSize if the path holds n and this value was made for another number. Once they
// were the same, it follows.
func (x *Shards) agree(n int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n != x.n && !x.agreed {
		return shards.WrongSize(n, x.n)
	}
	x.n, x.agreed = n, true
	return nil
}

// join makes the process a member, once.
func (sv *shardServer) join(ctx context.Context) (err error) {
	if sv.member != nil {
		return nil
	}
	if sv.member, err = sv.group().Join(ctx, shards.Claims{}.Bytes(), MemberID(sv.opts.Member)); err != nil {
		return err
	}
	telling, stop := context.WithCancel(context.WithoutCancel(ctx))
	sv.stop = stop
	sv.told.Go(func() { sv.tellClaims(telling) })
	return nil
}

// noteSeen notes whether the process sees itself among the members. If it does not, it gets no shard.
// That is normal until a session that has its id expires, and a warning says when it lasts longer.
func (sv *shardServer) noteSeen(seen bool) {
	switch {
	case seen && sv.unseen != nil:
		sv.unseen.Stop()
		sv.unseen = nil
	case !seen && sv.unseen == nil:
		since := time.Now()
		s, _ := sv.c.Session()
		sv.unseen = time.AfterFunc(s.Timeout()+sv.opts.Settle, func() {
			sv.c.Log(slog.LevelWarn, "a process that serves shards is not among their members", "path", sv.path, "since", since)
		})
	}
}

// leave ends the membership. Once ctx has ended, it waits for no more than a Grace.
func (sv *shardServer) leave(ctx context.Context) {
	sv.noteSeen(true)
	if sv.member == nil {
		return
	}
	sv.stop()
	sv.told.Wait()
	_, _ = sv.c.Tasks.Within(ctx, zkconn.Grace, sv.member.Leave) // if it is refused, it goes on until the session ends
}

// tellClaims keeps the member's data up to date.
func (sv *shardServer) tellClaims(ctx context.Context) {
	last := string(shards.Claims{}.Bytes())
	for {
		select {
		case <-sv.tell:
		case <-ctx.Done():
			return
		}
		now := sv.claims().Bytes()
		if string(now) == last {
			continue
		}
		last = string(now)
		if err := sv.member.Update(ctx, now); err != nil && ctx.Err() == nil { // it will be written all the same
			sv.c.Log(slog.LevelWarn, "cannot tell which shards this process has", "path", sv.path, "err", err)
		}
	}
}

func (sv *shardServer) claims() (c shards.Claims) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	for number, w := range sv.works {
		switch {
		case w.lease != nil && w.ends().IsZero():
			c.Held = append(c.Held, number)
		case w.lease != nil:
			c.Leaving = append(c.Leaving, number)
		}
	}
	return c
}

func wakeUp(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// followMembers sends who is there, and which shards they have.
func (sv *shardServer) followMembers(ctx context.Context, views chan<- []shards.Member) error {
	return sv.group().follow(ctx, func(present []group.Present) error {
		var members []shards.Member
		for _, p := range present {
			if claims, ok := shards.ParseClaims(p.Data); ok {
				members = append(members, shards.Member{ID: p.ID, Session: p.Stat.EphemeralOwner, Joined: p.Stat.Czxid, Claims: claims})
			}
		}
		select {
		case views <- members:
			return nil
		case <-ctx.Done(): // also when the Client is closed: then Waiting ends
			return ctx.Err()
		}
	})
}

// followSize returns ErrMoved when the number of shards is no longer n.
func (sv *shardServer) followSize(ctx context.Context, n int) error {
	for node, err := range sv.client.Watch(ctx, sv.path) {
		if err != nil {
			return err
		}
		if size, ok := shards.ParseSize(node.Data); ok && size != (shards.Size{N: n}) {
			return ErrMoved
		}
	}
	return ctx.Err()
}

// workOnPlans works on the shards that the plans give to this process, until ctx ends.
func (sv *shardServer) workOnPlans(ctx context.Context, n int, views <-chan []shards.Member) {
	var members []shards.Member
	var first, changed time.Time // when others have come or gone last, and first since they settled
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case view := <-views:
			if !sameMembers(view, members) {
				if now := time.Now(); first.IsZero() {
					first, changed = now, now
				} else {
					changed = now
				}
			}
			members = view
		case <-sv.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		settled := min(time.Until(changed.Add(sv.opts.Settle)), time.Until(first.Add(maxSettles*sv.opts.Settle)))
		sv.carryOut(ctx, n, slices.Clone(members), settled <= 0)
		wait := sv.warn()
		if settled > 0 {
			wait = min(wait, settled)
		} else {
			first = time.Time{}
		}
		timer.Reset(wait)
	}
}

// sameMembers reports whether the same processes are there, whatever they have.
func sameMembers(a, b []shards.Member) bool {
	return slices.EqualFunc(a, b, func(a, b shards.Member) bool { return a.ID == b.ID && a.Joined == b.Joined })
}

// carryOut stands in line for the shards that this process is to have, and lets go of those that
// another one is to have: of those that it holds once the members have settled.
func (sv *shardServer) carryOut(ctx context.Context, n int, members []shards.Member, settled bool) {
	me := slices.IndexFunc(members, sv.isMe)
	if sv.noteSeen(me >= 0); me < 0 { // its znode is being created again, or another process has its id
		if settled && len(members) > 0 { // then its shards are theirs
			sv.letGoOfAll()
		}
		return
	}
	members[me].Claims = sv.claims() // what others have read may be older
	owner := shards.Plan(n, members) // which sorts members
	sv.mu.Lock()
	defer sv.mu.Unlock()
	for number, i := range owner {
		w := sv.works[number]
		if mine := sv.isMe(members[i]); mine && w == nil {
			sv.start(ctx, number, n)
		} else if !mine && w != nil && w.leaves.IsZero() && (settled || w.lease == nil) {
			sv.letGo(w)
		}
	}
}

// isMe reports whether a member is this process, and not another one that has got its id.
func (sv *shardServer) isMe(m shards.Member) bool {
	s, _ := sv.c.Session()
	return m.ID == sv.member.ID() && m.Session == s.ID()
}

// letGo has a process that has a shard, or stands in line for it, give it up. mu must be held.
func (sv *shardServer) letGo(w *shardWork) {
	w.leaves = time.Now()
	w.logged = w.leaves
	w.cancel(ErrMoved)
	wakeUp(sv.tell)
}

// warn logs which functions have not returned, and returns when it is to be called again.
func (sv *shardServer) warn() (again time.Duration) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	again = time.Hour
	for _, w := range sv.works {
		since := w.ends()
		if w.lease == nil || since.IsZero() {
			continue
		}
		if time.Since(w.logged) >= hungAfter {
			w.logged = time.Now()
			sv.c.Log(slog.LevelWarn, "the function of a shard that is to be given up has not returned",
				"path", sv.path, "shard", w.number, "since", since)
		}
		again = min(again, time.Until(w.logged.Add(hungAfter)))
	}
	return max(again, time.Millisecond)
}

func (sv *shardServer) letGoOfAll() {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	for _, w := range sv.works {
		if w.leaves.IsZero() {
			sv.letGo(w)
		}
	}
}

// drain waits until no function works any more. Once held has ended, it does not wait for those that
// have lost their shards: these are not taken again until they have returned.
func (sv *shardServer) drain(held context.Context) {
	sv.letGoOfAll()
	over := held.Done()
	for sv.isAtWork(held.Err() != nil) {
		wait := sv.warn()
		if held.Err() != nil { // noteLost tells that a shard is lost, but only some time later
			over, wait = nil, min(wait, firstShardPause)
		}
		late := time.NewTimer(wait)
		select {
		case <-sv.wake:
		case <-late.C:
		case <-over:
		}
		late.Stop()
	}
}

// isAtWork reports whether a function works or a shard is waited for. With butLost, functions that have
// lost their shards do not count.
func (sv *shardServer) isAtWork(butLost bool) bool {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	for _, w := range sv.works {
		if !butLost || w.lease == nil || w.lease.Err() == nil {
			return true
		}
	}
	return false
}

// start works on a shard in a goroutine. mu must be held.
func (sv *shardServer) start(ctx context.Context, number, n int) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &shardWork{number: number, cancel: cancel}
	sv.works[number] = w
	go func() {
		defer func() {
			cancel(nil)
			sv.mu.Lock()
			delete(sv.works, number)
			sv.mu.Unlock()
			wakeUp(sv.wake)
			wakeUp(sv.tell)
		}()
		sv.workOn(ctx, w, n)
	}()
}

// workOn takes a shard again and again, until ctx ends.
func (sv *shardServer) workOn(ctx context.Context, w *shardWork, n int) {
	pause := firstShardPause
	for {
		began := time.Now()
		lost, err := sv.workOnce(ctx, w, n)
		if ctx.Err() != nil || sv.c.Waiting.Err() != nil {
			return
		}
		if lost || time.Since(began) > 2*lastShardPause {
			pause = firstShardPause
		}
		if lost {
			continue
		}
		if err != nil {
			sv.c.Log(slog.LevelWarn, "work on a shard has failed", "path", sv.path, "shard", w.number, "err", err)
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastShardPause)
		case <-ctx.Done():
			return
		}
	}
}

// workOnce takes the shard and calls f. lost: the shard was lost, so it can be taken again at once.
func (sv *shardServer) workOnce(ctx context.Context, w *shardWork, n int) (lost bool, err error) {
	l, err := sv.lock(w.number).self().acquire(ctx, opShard, layout.KindLock)
	if err != nil {
		return errors.Is(err, ErrEvicted), err
	}
	sv.hold(w, l)
	stop := context.AfterFunc(l.Context(context.Background()), func() {
		at := time.Now()
		time.AfterFunc(lostAfter, func() { sv.noteLost(w, l, at) }) // a function that returns at once takes it again
	})
	defer func() {
		stop()
		sv.hold(w, nil)
		lost = errors.Is(l.Err(), ErrLost)
		released := l.releaseWithin(ctx, l.Release)
		if !lost && err == nil {
			err = released
		}
	}()
	return false, sv.call(ctx, &Shard{l, w.number, n})
}

// call calls f, in a goroutine of its own, which f may end. If f panics, the shard is released before the
// process ends.
func (sv *shardServer) call(ctx context.Context, s *Shard) error {
	result := make(chan error, 1)
	go func() {
		err, returned := errors.New("the function has ended its goroutine (runtime.Goexit)"), false
		defer func() {
			if !returned {
				_ = s.lease.releaseWithin(ctx, s.lease.Release)
			}
			result <- err
		}()
		err = sv.f(s.lease.Context(ctx), s)
		returned = true
	}()
	return <-result
}

func (sv *shardServer) hold(w *shardWork, l *Lease) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	w.lease, w.lost = l, time.Time{}
	wakeUp(sv.wake)
	wakeUp(sv.tell)
}

// noteLost notes that a lease has ended at that time. If the function works on, the shard is lost.
func (sv *shardServer) noteLost(w *shardWork, l *Lease, at time.Time) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if w.lease != l {
		return
	}
	w.lost = at
	if w.leaves.IsZero() {
		w.logged = at
	}
	wakeUp(sv.wake)
	wakeUp(sv.tell)
}
