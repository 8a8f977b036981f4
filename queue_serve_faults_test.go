package zkrecipes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/queue"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Serve without a connection, and user functions that panic.

// Serve's context ends during an outage, and a handler returns. The ack was not sent, or
// its reply never comes.
func TestB77ServeEndsWithItsLeasesIfItsContextEndsDuringAnOutage(t *testing.T) {
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("sent=%v", sent), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				q := w.queue(w.stranger(nil))
				putOn(t, q, "x")
				began, finish := make(chan *Item, 2), make(chan struct{})
				a := serveLater(t, q, func(_ context.Context, it *Item) error {
					began <- it
					<-finish
					return nil
				})
				it, session := <-began, sessionID(clientOf(q.itemQueue.Client))
				if sent {
					w.plan.Add(zktest.Fault{Do: zktest.Withhold, Op: opAckJoin}, zktest.Fault{Do: zktest.Refuse, Times: -1})
				} else {
					w.away(clientOf(q.itemQueue.Client))
				}
				close(finish)
				synctest.Wait()
				require.True(t, a.Waiting(), "the ack may still be carried out")
				until := it.ValidUntil()
				require.False(t, until.IsZero())
				require.NoError(t, stop(a))
				require.False(t, time.Now().After(until), "%v after the claim's end", time.Since(until))

				w.srv.Expire(session) // else the ack may be carried out after all
				w.back()
				again := takeOn(t, w.queue(w.stranger(nil)))
				require.Equal(t, 2, again.Attempt)
				ackOn(t, again)
			})
		})
	}
}

// An ack loses its reply, and is found to be carried out after its worker has left it
// with the claim. The place that it has taken for the worker is deleted: the worker has
// another one by then.
func TestB77PlaceOfAnAckThatItsWorkerHasLeftIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		q := w.queue(w.stranger(nil))
		putOn(t, q, "x")
		handled := make(chan string, 9)
		w.plan.Add(zktest.Fault{Do: zktest.Withhold, After: true, Op: opAckJoin}, zktest.Fault{Do: zktest.Refuse, Times: -1})
		var lost sync.Once
		over := make(chan struct{})
		a := serveLater(t, q, func(_ context.Context, it *Item) error {
			handled <- string(it.Data)
			context.AfterFunc(it.Context(context.WithoutCancel(t.Context())), func() { lost.Do(func() { close(over) }) })
			return nil
		})
		<-over
		w.back()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, w.srv.Children(w.path+"/line"), 1, "the worker waits")
		require.Empty(t, w.items())
		putOn(t, w.queue(w.stranger(nil)), "y")
		require.Equal(t, "x", <-handled)
		require.Equal(t, "y", <-handled)
		require.NoError(t, stop(a))
		require.Empty(t, handled)
	})
}

// records collects what is logged.
type records struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *records) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *records) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// logged returns options with a Logger, and its records.
func logged() (*Options, *records) {
	l := &records{}
	return &Options{Logger: slog.New(slog.NewJSONHandler(l, nil))}, l
}

// sessions returns the records that name a session: level, message and session.
func (l *records) sessions(t *testing.T) (all []string) {
	for line := range strings.Lines(l.String()) {
		var r struct{ Level, Msg, Session string }
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		if r.Session != "" {
			all = append(all, r.Level+" "+r.Msg+" "+r.Session)
		}
	}
	return all
}

func TestB41StackOfAPanicInAHandlerIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		opts, log := logged()
		q := w.queue(w.stranger(opts))
		putOn(t, q, "x")
		attempts := 0
		a := serveLater(t, q, func(context.Context, *Item) error {
			if attempts++; attempts == 1 {
				panicsInAHandler()
			}
			return nil
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, stop(a))
		require.Equal(t, 2, attempts)
		require.Contains(t, log.String(), "handler panicked: on purpose")
		require.Contains(t, log.String(), "panicsInAHandler")
	})
}

func panicsInAHandler() { panic("on purpose") }

// A Backoff that panics, or ends its goroutine, is replaced by the default.
func TestB41BackoffThatPanicsIsLoggedAndTheDefaultIsUsed(t *testing.T) {
	for what, fails := range map[string]func(){"panicked: on purpose": func() { panic("on purpose") }, "runtime.Goexit": runtime.Goexit} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				opts, log := logged()
				q := NewQueue(w.stranger(opts), w.path, &QueueOptions{Backoff: func(int) time.Duration {
					fails()
					return time.Hour
				}})
				putOn(t, q, "x")
				began := time.Now()
				var at []time.Duration
				a := serveLater(t, q, func(context.Context, *Item) error {
					if at = append(at, time.Since(began)); len(at) < 3 {
						return errHandler
					}
					return nil
				})
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, []time.Duration{0, queue.BackOff(1), queue.BackOff(1) + queue.BackOff(2)}, at)
				require.NoError(t, stop(a))
				require.Contains(t, log.String(), "QueueOptions.Backoff")
				require.Contains(t, log.String(), what)
			})
		})
	}
}
