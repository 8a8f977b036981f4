//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/guard"
)

// locking is a command line of zkr lock.
type locking struct {
	command
	waitFlags
	shared, exclusive bool
	slots             int
}

// waitFlags say how long to wait for a lock.
type waitFlags struct {
	try    bool
	wait   time.Duration
	failed status
}

func (f *waitFlags) addFlags(c *cobra.Command) {
	c.Flags().BoolVarP(&f.try, "nonblock", "n", false, "do not wait")
	c.Flags().VarP((*seconds)(&f.wait), "wait", "w", "wait so long at most, connecting included: 30 (seconds), 1m30s (default: for ever)")
	f.failed = exitNotAcquired
	c.Flags().VarP(&f.failed, "conflict-exit-code", "E", "exit status if the lock was not acquired")
	c.MarkFlagsMutuallyExclusive("nonblock", "wait")
}

// seconds is the value of a flag: a duration, or a number of seconds, as flock -w takes it.
type seconds time.Duration

func (s *seconds) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

func (s *seconds) Type() string { return "duration" }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		if d, err = time.ParseDuration(text + "s"); err != nil {
			return errors.New("must be seconds, or a duration such as 1m30s")
		}
	}
	*s = seconds(d)
	return nil
}

// check returns an error if the time to wait is none. Without -w it is for ever.
func (f *waitFlags) check(c *cobra.Command) error {
	if c.Flags().Changed("wait") && f.wait <= 0 {
		return failf(exitUsage, "-w is %v, and must be above 0 (-n does not wait)", f.wait)
	}
	return nil
}

const longLock = `Lock runs a command while it holds the lock at PATH, and exits as the command does. It waits for
the lock first, in the order of arrival.

The command is dead before anybody else can hold the lock, unless an operator takes the lock away:
if the servers cannot be reached, the command gets SIGTERM, and SIGKILL before its session can
expire. So it does if zkr is stopped or killed. On Linux that includes all processes that the
command has started, and the lock is released when the last of them has ended. On other systems
it is the command's process group.

The command finds ZKR_PATH, ZKR_TOKEN (the fencing token), ZKR_PLACE (the znode in the line) and,
with -k, ZKR_SLOT in its environment. Give the token along with whatever the command writes
elsewhere: a machine that was suspended acts too late, and only the token stops it.

Without -s, -x and -k the lock is a Mutex. -s and -x are the two sides of a read/write lock, which
needs a path of its own, and so does a semaphore.

On a terminal zkr names the holder after a second, and how many are ahead. With -n the error names
the holder. Flags of zkr come before the command.

Exit status: the command's, or 128 and the number of the signal that ended it or zkr's wait;
64 wrong usage; 69 no server; 75 not acquired; 76 lost while the command ran, even if it
succeeded; 126 and 127 the command cannot be run or was not found.`

func (a *app) lock() *cobra.Command {
	l := &locking{}
	c := &cobra.Command{
		Use:     "lock PATH [flags] [--] COMMAND [ARG..]",
		Short:   "Run a command while holding a lock or a semaphore's slot",
		Long:    longLock,
		Example: "  zkr lock /locks/backup -n -- pg_dump -f /backup/db.sql db\n  zkr lock /slots/export -k 3 -w 1m -c 'export --worker \"$ZKR_SLOT\"'",
		RunE: func(c *cobra.Command, args []string) error {
			path, err := l.parse(c, args)
			if err == nil {
				err = l.waitFlags.check(c)
			}
			if err != nil {
				return err
			}
			if c.Flags().Changed("slots") && l.slots < 1 { // without -k it is a lock
				return failf(exitUsage, "-k is %d, and must be above 0", l.slots)
			}
			return a.runLock(c.Context(), path, l)
		},
	}
	l.command.addFlags(c)
	l.waitFlags.addFlags(c)
	c.Flags().BoolVarP(&l.shared, "shared", "s", false, "a lock that others share: a reader of an RWLock")
	c.Flags().BoolVarP(&l.exclusive, "exclusive", "x", false, "the exclusive side of -s: a writer of an RWLock")
	c.Flags().IntVarP(&l.slots, "slots", "k", 0, "one of so many slots of a semaphore")
	c.MarkFlagsMutuallyExclusive("shared", "exclusive", "slots")
	return c
}

// runLock acquires, runs the command and releases.
func (a *app) runLock(ctx context.Context, path string, l *locking) error {
	client, g, h, err := acquire(ctx, a, path, &l.command, &l.waitFlags, func(ctx context.Context, client *zkrecipes.Client) (*held, error) {
		return l.take(ctx, client, path)
	})
	if err != nil {
		return err
	}
	defer client.Close()
	o, err := a.hold(client, g, h, &l.command, nil, nil)
	return l.end(path, o, err)
}

// take takes what the flags say.
func (l *locking) take(ctx context.Context, client *zkrecipes.Client, path string) (*held, error) {
	if l.slots > 0 {
		s := zkrecipes.NewSemaphore(client, path, l.slots)
		slot, err := pick(l.try, s.TryAcquire, s.Acquire)(ctx)
		if err != nil {
			return nil, err
		}
		return heldSlots(slot), nil
	}
	m, rw := zkrecipes.NewMutex(client, path), zkrecipes.NewRWLock(client, path)
	take := pick(l.try, m.TryLock, m.Lock)
	switch {
	case l.shared:
		take = pick(l.try, rw.TryRLock, rw.RLock)
	case l.exclusive:
		take = pick(l.try, rw.TryLock, rw.Lock)
	}
	lease, err := take(ctx)
	if err != nil {
		return nil, err
	}
	return heldLease(lease), nil
}

func pick[F any](first bool, a, b F) F {
	if first {
		return a
	}
	return b
}

// errWaited is the cause of a context whose -w has passed.
var errWaited = errors.New("the time to wait has passed")

// bounded returns a context that ends after the time to wait, if that is not 0.
func bounded(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, wait, errWaited)
}

// acquire starts a guard, connects and calls take, which takes what is at the path, within the bounds of
// the flags. Without an error the caller must use or close the guard, and close the Client.
func acquire(ctx context.Context, a *app, path string, m *command, f *waitFlags, take func(context.Context, *zkrecipes.Client) (*held, error)) (client *zkrecipes.Client, g *guard.Guard, h *held, err error) {
	if g, err = guard.Start(); err != nil { // it is ready by the time that the lock is held
		return nil, nil, nil, &failure{exitSoftware, err}
	}
	err = a.waiting(ctx, func(ctx context.Context) error {
		ctx, cancel := bounded(ctx, f.wait)
		defer cancel()
		if client, err = a.dial(ctx); err != nil {
			return err
		}
		if _, err := m.graceFor(client.Status().Timeout); err != nil {
			return err // before it waits for hours
		}
		if f.try { // it waits for a reply only
			patience, err := a.duration("ZKR_CONNECT_TIMEOUT")
			if err != nil {
				return err
			}
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		done := a.sayWhoHolds(ctx, client, path)
		h, err = take(ctx, client)
		done()
		if errors.Is(err, zkrecipes.ErrLocked) {
			if who := a.whoHolds(ctx, client, path); who != "" {
				err = fmt.Errorf("%w: %s", err, who)
			}
		}
		if errors.Is(err, zkrecipes.ErrLocked) || errors.Is(err, zkrecipes.ErrEvicted) || errors.Is(context.Cause(ctx), errWaited) && err != nil {
			return &failure{int(f.failed), err}
		}
		return err
	})
	if err == nil {
		return client, g, h, nil
	}
	if h != nil { // a signal came as the lock was granted
		_ = h.release()
	}
	g.Close()
	if client != nil {
		client.Close()
	}
	return nil, nil, nil, err
}
