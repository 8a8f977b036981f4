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

// sessionTimeout is the same for both libraries. It is long, so that heartbeats are
// few and no session expires on a busy machine.
const sessionTimeout = 30 * time.Second

// maxParallel is the number of sessions that are opened or closed at the same time.
const maxParallel = 32

// fixture is what one measurement runs on. It has a path of its own, and sessions
// that it closes at its end. When its context ends, also because it has taken too long, it
// closes them at once, which ends every call that waits: zk.Lock takes no context.
type fixture struct {
	ctx     context.Context
	cancel  context.CancelFunc
	servers []string
	path    string

	mu      sync.Mutex
	closers []func()
	leave   func() bool
}

var fixtures atomic.Int64

func (l *lab) fixture(ctx context.Context, limit time.Duration) *fixture {
	fx := &fixture{servers: l.servers, path: fmt.Sprintf("/bench/%d-%d", time.Now().UnixNano(), fixtures.Add(1))}
	fx.ctx, fx.cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	fx.leave = context.AfterFunc(fx.ctx, fx.endSessions)
	return fx
}

func (fx *fixture) close() {
	fx.leave()
	fx.endSessions()
	fx.cancel()
}

func (fx *fixture) endSessions() {
	fx.mu.Lock()
	closers := fx.closers
	fx.closers = nil
	fx.mu.Unlock()
	each(len(closers), func(i int) error { closers[i](); return nil })
}

func (fx *fixture) atEnd(f func()) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	fx.closers = append(fx.closers, f)
}

// conns opens n sessions of go-zookeeper. t counts their frames.
func (fx *fixture) conns(n int, t *tally) ([]*zk.Conn, error) {
	conns := make([]*zk.Conn, n)
	return conns, each(n, func(i int) (err error) {
		conns[i], err = fx.connTo(fx.server(i), t)
		return err
	})
}

// server returns the server of the ith session: the same on each side, and each server
// as often as the others.
func (fx *fixture) server(i int) []string { return fx.servers[i%len(fx.servers):][:1] }

func (fx *fixture) conn(t *tally) (*zk.Conn, error) { return fx.connTo(fx.server(0), t) }

func (fx *fixture) connTo(server []string, t *tally) (*zk.Conn, error) {
	conn, events, err := zk.Connect(server, sessionTimeout,
		zk.WithDialer(t.Dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	fx.atEnd(conn.Close)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil // later events are dropped once the channel is full
			}
		case <-fx.ctx.Done():
			return nil, fmt.Errorf("connecting: %w", context.Cause(fx.ctx))
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// clients opens n sessions of this library. t counts their frames.
func (fx *fixture) clients(n int, t *tally) ([]*zkrecipes.Client, error) {
	clients := make([]*zkrecipes.Client, n)
	return clients, each(n, func(i int) (err error) {
		clients[i], err = fx.clientTo(fx.server(i), t)
		return err
	})
}

func (fx *fixture) client(t *tally) (*zkrecipes.Client, error) { return fx.clientTo(fx.server(0), t) }

func (fx *fixture) clientTo(server []string, t *tally) (*zkrecipes.Client, error) {
	c, err := zkrecipes.Dial(fx.ctx, server, &zkrecipes.Options{
		SessionTimeout: sessionTimeout, Dialer: t.DialContext,
	})
	if err != nil {
		return nil, err
	}
	fx.atEnd(func() { c.Close() })
	return c, nil
}

// each calls f with 0 to n-1, a few at a time.
func each(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, min(n, maxParallel))
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
