package zkrecipes

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
)

// Callbacks that are slow, that panic, or that call the library.

type slowHandler struct {
	slog.Handler
	free chan struct{}
}

func (h slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h slowHandler) Handle(context.Context, slog.Record) error {
	<-h.free
	panic("logger")
}

func TestB41ASlowLoggerHoldsUpNobody(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	r := newRig(t, &Options{Logger: slog.New(slowHandler{slog.DiscardHandler, free})})
	l := r.lock()
	r.p.Expire()
	<-l.Context(r.ctx).Done()
	require.NoError(t, r.m.Do(r.ctx, nothing))
	close(free)
}

func TestB41SlowAndPanickingHooksHoldUpNobody(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			free := make(chan struct{})
			var once sync.Once
			released := make(chan TraceEvent, 10)
			r := side.rig(t, &Options{Trace: &Trace{
				Granted: func(TraceEvent) {
					<-free
					once.Do(func() { panic("hook") })
				},
				Released: func(e TraceEvent) { released <- e },
			}})
			for range 3 { // while the first hook blocks
				require.NoError(t, r.m.Do(r.ctx, nothing))
			}
			require.Empty(t, released)
			close(free)
			var last Token
			for range 4 { // including the one when the rig was set up; in order, and none lost to the panic
				e := <-released
				require.Greater(t, e.Token, last)
				require.Equal(t, r.path, e.Path)
				require.NotZero(t, e.Session)
				last = e.Token
			}
		})
	}
}

func TestB57HooksAndFunctionsMayCallTheLibrary(t *testing.T) {
	for _, side := range sides {
		t.Run(side.name, func(t *testing.T) {
			var r *sideRig
			ready := make(chan struct{})
			locked, closed := make(chan error, 1), make(chan error, 1)
			var once sync.Once
			opts := &Options{Trace: &Trace{Released: func(TraceEvent) {
				once.Do(func() {
					<-ready
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					defer cancel()
					locked <- r.m.Do(ctx, nothing)
					closed <- r.c.Close()
				})
			}}}
			r = side.rig(t, opts)
			close(ready)
			require.NoError(t, harness.Receive(t, locked))
			require.NoError(t, harness.Receive(t, closed))

			other := side.rig(t, nil)
			err := other.m.Do(other.ctx, func(ctx context.Context, l *Lease) error {
				context.AfterFunc(ctx, func() { other.c.Close() })
				return other.c.Close()
			})
			require.ErrorIs(t, err, ErrClosed)
		})
	}
}
