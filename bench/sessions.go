package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
)

// sessionTimeout is the same for both libraries, and long, so that heartbeats
// are few and a machine that is busy loses no session.
const sessionTimeout = 30 * time.Second

// together is how many sessions are opened or closed at the same time.
const together = 32

// room is where one measurement takes place: a path of its own, and sessions
// that end with it. When its context ends they end at once, and with them every
// call that waits: zk.Lock takes no context.
type room struct {
	ctx     context.Context
	servers []string
	path    string

	mu      sync.Mutex
	closers []func()
	leave   func() bool
}

var rooms atomic.Int64

func (l *lab) room(ctx context.Context) *room {
	r := &room{ctx: ctx, servers: l.servers,
		path: fmt.Sprintf("/bench/%d-%d", time.Now().UnixNano(), rooms.Add(1))}
	r.leave = context.AfterFunc(ctx, r.endSessions)
	return r
}

func (r *room) close() {
	r.leave()
	r.endSessions()
}

func (r *room) endSessions() {
	r.mu.Lock()
	closers := r.closers
	r.closers = nil
	r.mu.Unlock()
	each(len(closers), func(i int) error { closers[i](); return nil })
}

func (r *room) atEnd(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closers = append(r.closers, f)
}

// conns opens n sessions of go-zookeeper, whose frames t counts.
func (r *room) conns(n int, t *tally) ([]*zk.Conn, error) {
	conns := make([]*zk.Conn, n)
	return conns, each(n, func(i int) (err error) {
		conns[i], err = r.conn(t)
		return err
	})
}

func (r *room) conn(t *tally) (*zk.Conn, error) {
	conn, events, err := zk.Connect(r.servers, sessionTimeout,
		zk.WithDialer(t.Dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	r.atEnd(conn.Close)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil // later events are dropped once the channel is full
			}
		case <-r.ctx.Done():
			return nil, fmt.Errorf("connecting: %w", context.Cause(r.ctx))
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// clients opens n sessions of this library, whose frames t counts.
func (r *room) clients(n int, t *tally) ([]*zkrecipes.Client, error) {
	clients := make([]*zkrecipes.Client, n)
	return clients, each(n, func(i int) (err error) {
		clients[i], err = r.client(t)
		return err
	})
}

func (r *room) client(t *tally) (*zkrecipes.Client, error) {
	c, err := zkrecipes.Dial(r.ctx, r.servers, &zkrecipes.Options{
		SessionTimeout: sessionTimeout, Dialer: t.DialContext,
	})
	if err != nil {
		return nil, err
	}
	r.atEnd(func() { c.Close() })
	return c, nil
}

// each calls f with 0 to n-1, a few at a time.
func each(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, min(n, together))
	for w := range errs {
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[w] = f(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
