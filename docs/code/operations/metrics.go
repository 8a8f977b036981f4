package operations

import (
	"context"
	"errors"
	"expvar"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Metrics are counters by name. expvar.Publish shows them at /debug/vars.
type Metrics struct {
	expvar.Map
	ongoing ongoing
}

// Trace returns the hooks that count. Give it to one Client, as Options.Trace.
func (m *Metrics) Trace() *zkrecipes.Trace {
	m.Set("oldest seconds", expvar.Func(m.ongoing.ages))
	return &zkrecipes.Trace{
		AcquireStart: m.ongoing.acquireStart,
		AcquireEnd: func(ctx context.Context, e zkrecipes.TraceAcquireEnd) {
			m.ongoing.acquireEnd(ctx, e)
			name := string(e.Recipe) + " " + e.Op // the path, too, if there are few
			m.Add("dropped", int64(e.Dropped))
			switch {
			case e.Err != nil && !isOrderly(e.Err):
				m.Add("failed "+name, 1)
			case e.Err == nil:
				m.Add("acquired "+name, 1)
				if e.Recipe != zkrecipes.RecipeQueue || e.Op == "put" { // else it waited for an item
					m.observe("wait "+name, e.Wait)
				}
			}
		},
		HoldEnd: func(e zkrecipes.TraceHoldEnd) {
			m.ongoing.holdEnd(e)
			m.Add("dropped", int64(e.Dropped))
			if errors.Is(e.Err, zkrecipes.ErrLost) {
				m.Add("lost "+string(e.Recipe), 1)
			}
			if e.Recipe != zkrecipes.RecipeQueue { // time the handler instead
				m.observe("held "+string(e.Recipe), e.Held)
			}
		},
		Session: func(e zkrecipes.TraceSession) {
			m.Add("dropped", int64(e.Dropped))
			m.Add("session "+e.State.String(), 1)
		},
	}
}

// isOrderly reports whether an acquisition failed in the ordinary course of things: it was
// canceled or refused, or the client is being closed.
func isOrderly(err error) bool {
	for _, orderly := range []error{context.Canceled, zkrecipes.ErrClosed, zkrecipes.ErrLocked, zkrecipes.ErrEmpty} {
		if errors.Is(err, orderly) {
			return true
		}
	}
	return false
}

// Handled returns a handler for Serve that counts and times another one.
func (m *Metrics) Handled(handler func(context.Context, *zkrecipes.Item) error) func(context.Context, *zkrecipes.Item) error {
	return func(ctx context.Context, it *zkrecipes.Item) error {
		began := time.Now()
		err := handler(ctx, it)
		m.observe("handled "+it.Path(), time.Since(began))
		if err != nil {
			m.Add("handler failed "+it.Path(), 1)
		}
		return err
	}
}

// observe counts a duration in a histogram: each bucket includes the smaller ones.
func (m *Metrics) observe(name string, d time.Duration) {
	for _, bound := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second} {
		if d <= bound {
			m.Add(name+" up to "+bound.String(), 1)
		}
	}
	m.Add(name+" count", 1)
	m.AddFloat(name+" seconds", d.Seconds())
}
