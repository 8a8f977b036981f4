package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// opening is the cost for n members of passing a barrier together.
type opening struct {
	Members     int
	Plain, Ours meeting
}

// meeting is one side's part of an opening.
type meeting struct {
	members int
	times   []time.Duration // of each round, from the last arrival to the last wake
	counts  counts          // of all rounds, from the first arrival to the last wake
}

func (m meeting) per(n int64) float64 { return float64(n) / float64(m.members*len(m.times)) }
func (m meeting) Bytes() float64      { return m.per(m.counts.Received) }
func (m meeting) Requests() float64   { return m.per(m.counts.Requests) }
func (m meeting) Time() time.Duration {
	times := slices.Clone(m.times)
	slices.Sort(times)
	return times[len(times)/2]
}

// member is what one session does in each round.
type member struct{ wait, leave func() error }

// members returns the numbers of members to measure.
func members(short bool) []int {
	if short {
		return []int{2, 10}
	}
	return []int{10, 100, 500}
}

// openingRounds returns how many rounds of a barrier of n are measured. One of few members
// takes about as long as a thread takes to wake up, so its times vary more.
func openingRounds(n int, short bool) int {
	switch {
	case short:
		return 3
	case n <= 10:
		return 61
	}
	return 11
}

// openings measures both sides with n members, taking turns.
func (l *lab) openings(ctx context.Context, n, rounds int) (*opening, error) {
	fx := l.fixture(ctx, limit)
	defer fx.close()
	var uncounted, plainTally, ourTally tally
	observer, err1 := fx.conn(&uncounted)
	conns, err2 := fx.conns(n, &plainTally)
	clients, err3 := fx.clients(n, &ourTally)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	plainPath, ourPath := fx.path+"/plain", fx.path+"/ours"
	if err := makeNode(observer, plainPath); err != nil {
		return nil, err
	}
	plain, our := make([]member, n), make([]member, n)
	for i := range n {
		p := &plainBarrier{conn: conns[i], path: plainPath, n: n}
		plain[i] = member{func() error { return p.wait(fx.ctx) }, p.leave}
		b := zkrecipes.NewBarrier(clients[i], ourPath, n)
		our[i] = member{
			func() error {
				_, err := b.Wait(fx.ctx)
				return err
			},
			func() error { return nil }, // members leave by themselves
		}
	}
	there := func(path string) func() (int, error) {
		return func() (int, error) {
			names, _, err := observer.Children(path)
			if errors.Is(err, zk.ErrNoNode) {
				err = nil
			}
			return len(slices.DeleteFunc(names, func(name string) bool { return name == "ready" })), err
		}
	}
	o := &opening{Members: n, Plain: meeting{members: n}, Ours: meeting{members: n}}
	for round := range 1 + rounds {
		var warm [2]meeting // a session's first round costs more, and is not counted
		for i, side := range []struct {
			name    string
			m       *meeting
			t       *tally
			members []member
			there   func() (int, error)
		}{
			{"plain", &o.Plain, &plainTally, plain, there(plainPath)},
			{ours, &o.Ours, &ourTally, our, there(ourPath + "/round")},
		} {
			if round == 0 {
				side.m = &warm[i]
			}
			if err := side.m.meet(fx.ctx, side.members, side.t, side.there); err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
		}
	}
	return o, nil
}

// meet lets all members but one arrive, and then the last.
func (m *meeting) meet(ctx context.Context, members []member, t *tally, there func() (int, error)) error {
	gathered := func(n int) func() (bool, error) {
		return func() (bool, error) {
			have, err := there()
			return have == n, err
		}
	}
	if err := awaitQuiet(ctx, t, gathered(0)); err != nil {
		return err
	}
	began := t.read()
	errs, woke := make([]error, len(members)), make([]time.Time, len(members))
	var wg sync.WaitGroup
	arrive := func(i int) {
		wg.Go(func() {
			errs[i] = members[i].wait()
			woke[i] = time.Now()
		})
	}
	last := len(members) - 1
	for i := range last {
		arrive(i)
	}
	if err := awaitQuiet(ctx, t, gathered(last)); err != nil {
		return err
	}
	at := time.Now()
	arrive(last)
	wg.Wait()
	m.times = append(m.times, slices.MaxFunc(woke, time.Time.Compare).Sub(at))
	m.counts = m.counts.plus(t.read().minus(began))
	errs = append(errs, each(len(members), func(i int) error { return members[i].leave() }))
	return errors.Join(errs...)
}

// plainBarrier is the barrier of ZooKeeper's own tutorial ("Programming with
// ZooKeeper"), on go-zookeeper. A member creates a znode, and lists the members with
// a watch after every event until n are there.
type plainBarrier struct {
	conn *zk.Conn
	path string
	n    int
	name string // of the member's znode
}

func (b *plainBarrier) wait(ctx context.Context) (err error) {
	b.name, err = b.conn.Create(b.path+"/member-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	for err == nil {
		var names []string
		var event <-chan zk.Event
		names, _, event, err = b.conn.ChildrenW(b.path)
		if len(names) >= b.n {
			return nil
		}
		select {
		case <-event:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// leave must not be called before all members have seen that all are there.
func (b *plainBarrier) leave() error { return b.conn.Delete(b.name, -1) }
