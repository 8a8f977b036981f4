//go:build unix

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

const longJob = `Job runs a command if it has not succeeded yet in the present period, on whichever machine comes
first, and otherwise exits with status 0. Start it from cron, once or several times in each period,
on as many machines as you like.

Periods are multiples of --every since 1970 in UTC, plus --offset, by the servers' clock. A period
counts as done once the command has exited with status 0 while the lock was held. So a command that
fails, or whose machine dies, runs again at the next start. Nothing makes up for a period at which
nobody came.

The line is PATH/lock, and the znode PATH/done records the last period that is done. The command
finds the beginning of its period in ZKR_PERIOD, beside what zkr lock gives to it. If it dies after
its work is done and before it has exited, the work is done again: give ZKR_PERIOD or ZKR_TOKEN
along with the work, so that whoever receives it can tell. See docs/jobs.md.

The exit statuses are those of zkr lock.`

// jobbing is a command line of zkr job.
type jobbing struct {
	lockCommand
	every, offset time.Duration
}

func (a *app) job() *cobra.Command {
	j := &jobbing{}
	c := &cobra.Command{
		Use:     "job PATH --every DURATION [flags] -- COMMAND [ARG..]",
		Short:   "Run a command once in each period, on one of several machines",
		Long:    longJob,
		Example: "  0 * * * *  zkr job /periodic/report --every 24h --offset 2h -- report",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.runUnder(c.Context(), &j.lockCommand, j.at+"/lock", func(ctx context.Context, client *zkrecipes.Client) (*held, error) {
				return a.takeJob(ctx, client, j)
			})
		},
	}
	j.addFlags(c)
	c.Flags().Var(durationFrom(time.Second, &j.every), "every", "length of a period, such as 24h")
	c.Flags().DurationVar(&j.offset, "offset", 0, "how much later than the multiples of --every a period begins")
	_ = c.MarkFlagRequired("every")
	return c
}

// period returns the beginning of the period with the time in it.
func (j *jobbing) period(t time.Time) time.Time {
	every, since := int64(j.every), t.UnixNano()-int64(j.offset)
	return time.Unix(0, since-((since%every)+every)%every+int64(j.offset)).UTC()
}

// errDone ends zkr job with success: the period is done.
var errDone = &failure{}

// takeJob takes the lock. It returns errDone if there is nothing to do.
func (a *app) takeJob(ctx context.Context, client *zkrecipes.Client, j *jobbing) (*held, error) {
	m := zkrecipes.NewMutex(client, j.at+"/lock")
	lease, err := pick(j.try, m.TryLock, m.Lock)(ctx)
	if err != nil {
		return nil, err
	}
	record, err := j.look(ctx, lease)
	if err != nil {
		return nil, cmp.Or(lease.Release(), err)
	}
	record.next.Identity = a.identity()
	h := heldLease(lease)
	h.env = []string{"ZKR_PERIOD=" + record.next.Period.Format(time.RFC3339)}
	h.done = func() error { return record.write(context.Background(), lease) }
	return h, nil
}

// record is the znode PATH/done, which records the last period that is done.
type record struct {
	path    string
	version int32     // -1 if there is none
	next    view.Done // what is to be recorded
}

// look returns errDone if the period is done. It is the period in which the lease's call joined the
// line, by the servers' clock: machines whose clocks differ agree on it.
func (j *jobbing) look(ctx context.Context, lease *zkrecipes.Lease) (*record, error) {
	_, place, err := lease.Get(ctx, lease.Path()+"/"+path.Base(lease.Check().Path))
	if err != nil {
		return nil, err
	}
	r := &record{path: j.at + "/done", version: -1, next: view.Done{Period: j.period(time.UnixMilli(place.Ctime)), Token: lease.Token()}}
	data, stat, err := lease.Get(ctx, r.path)
	if errors.Is(err, zk.ErrNoNode) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	var last view.Done
	if err := json.Unmarshal(data, &last); err != nil {
		return nil, fmt.Errorf("%s is no record of zkr job: %w", r.path, err)
	}
	if !r.next.Period.After(last.Period) {
		return nil, errDone
	}
	r.version = stat.Version
	return r, nil
}

// write records that the period is done, if the lock is still held.
func (r *record) write(ctx context.Context, lease *zkrecipes.Lease) error {
	r.next.Ended = time.Now().UTC()
	data, err := json.Marshal(r.next)
	if err != nil {
		return err
	}
	op := zkrecipes.OpSet(r.path, data, r.version)
	if r.version < 0 {
		op = zkrecipes.OpCreate(r.path, data, 0, nil)
	}
	_, err = lease.Commit(ctx, op)
	if errors.Is(err, zkrecipes.ErrUncertain) {
		return fmt.Errorf("the command has succeeded, and whether that was recorded is not known: %w", err)
	}
	return err
}
