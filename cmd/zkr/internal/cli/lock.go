//go:build unix

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
)

// locking is a command line of zkr lock.
type locking struct {
	lockCommand
	shared, exclusive bool
	slots             int
}

// lockCommand is a command that is to be run under a lock, and how long to wait for that.
type lockCommand struct {
	command
	try    bool
	wait   time.Duration
	failed int // exit status
}

func (l *lockCommand) addFlags(c *cobra.Command) {
	l.command.addFlags(c)
	c.Flags().BoolVarP(&l.try, "nonblock", "n", false, "do not wait")
	c.Flags().VarP(waitTime(&l.wait), "wait", "w", "wait so long at most, connecting included: 30 (seconds), 1m30s (default: for ever)")
	l.failed = exitNotAcquired
	c.Flags().VarP(exitStatus(&l.failed), "conflict-exit-code", "E", "exit status if the lock was not acquired")
	c.MarkFlagsMutuallyExclusive("nonblock", "wait")
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

Exit status: the command's, or 128 and the number of the signal that ended it or zkr's wait, or
that of a failure: see zkr help exit-status.`

func (a *app) lock() *cobra.Command {
	l := &locking{}
	c := &cobra.Command{
		Use:     "lock PATH [flags] [--] COMMAND [ARG..]",
		Short:   "Run a command while holding a lock or a semaphore's slot",
		Long:    longLock,
		Example: "  zkr lock /locks/backup -n -- pg_dump -f /backup/db.sql db\n  zkr lock /slots/export -k 3 -w 1m -c 'export --worker \"$ZKR_SLOT\"'",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.runUnder(c.Context(), &l.lockCommand, l.at, l.take)
		},
	}
	l.addFlags(c)
	c.Flags().BoolVarP(&l.shared, "shared", "s", false, "a lock that others share: a reader of an RWLock")
	c.Flags().BoolVarP(&l.exclusive, "exclusive", "x", false, "the exclusive side of -s: a writer of an RWLock")
	c.Flags().VarP(numberFrom(1, &l.slots), "slots", "k", "one of so many slots of a semaphore")
	c.MarkFlagsMutuallyExclusive("shared", "exclusive", "slots")
	return c
}

// take takes what the flags say.
func (l *locking) take(ctx context.Context, client *zkrecipes.Client) (*held, error) {
	if l.slots > 0 {
		s := zkrecipes.NewSemaphore(client, l.at, l.slots)
		slot, err := pick(l.try, s.TryAcquire, s.Acquire)(ctx)
		if err != nil {
			return nil, err
		}
		return &held{
			lease: slot, place: slot.Checks()[0].Path, release: slot.Release,
			env: []string{fmt.Sprint("ZKR_SLOT=", slot.Slot())},
		}, nil
	}
	m, rw := zkrecipes.NewMutex(client, l.at), zkrecipes.NewRWLock(client, l.at)
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

const forEver = 100 * 365 * 24 * time.Hour // without -w

// runUnder connects, and runs the command while it holds what take takes at the path, within the bounds
// of the flags.
func (a *app) runUnder(ctx context.Context, l *lockCommand, path string, take func(context.Context, *zkrecipes.Client) (*held, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(l.wait, forEver), errWaited)
	defer cancel()
	client, err := a.connect(ctx, &l.command)
	if err != nil {
		return err
	}
	defer client.Close()
	o, err := a.underHold(ctx, client, &l.command, path, func(ctx context.Context) (*held, error) {
		if l.try { // it waits for a reply only
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, a.config.connectTimeout)
			defer cancel()
		}
		h, err := take(ctx, client)
		if errors.Is(err, zkrecipes.ErrLocked) {
			if who := a.whoHolds(ctx, client, path); who != "" {
				err = fmt.Errorf("%w: %s", err, who)
			}
		}
		if errors.Is(err, zkrecipes.ErrLocked) || errors.Is(err, zkrecipes.ErrEvicted) || err != nil && errors.Is(context.Cause(ctx), errWaited) {
			err = &failure{l.failed, err}
		}
		return h, err
	})
	switch {
	case err != nil:
		return err
	case o.lost != nil:
		return l.failLost(o)
	}
	return exit(o.code())
}
