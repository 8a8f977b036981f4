//go:build unix

package cli

import (
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
	command
	waitFlags
	every, offset time.Duration
}

func (a *app) job() *cobra.Command {
	j := &jobbing{}
	c := &cobra.Command{
		Use:     "job PATH --every DURATION [flags] -- COMMAND [ARG..]",
		Short:   "Run a command once in each period, on one of several machines",
		Long:    longJob,
		Example: "  0 * * * *  zkr job /periodic/report --every 24h --offset 2h -- report",
		RunE: func(c *cobra.Command, args []string) error {
			path, err := j.parse(c, args)
			if err == nil {
				err = j.waitFlags.check(c)
			}
			if err != nil {
				return err
			}
			if j.every < time.Second {
				return failf(exitUsage, "--every is %v, and must be at least 1s", j.every)
			}
			return a.runJob(c.Context(), path, j)
		},
	}
	j.command.addFlags(c)
	j.waitFlags.addFlags(c)
	c.Flags().DurationVar(&j.every, "every", 0, "length of a period, such as 24h")
	c.Flags().DurationVar(&j.offset, "offset", 0, "how much later than the multiples of --every a period begins")
	_ = c.MarkFlagRequired("every")
	return c
}

// period returns the beginning of the period with the time in it.
func (j *jobbing) period(t time.Time) time.Time {
	every, since := int64(j.every), t.UnixNano()-int64(j.offset)
	return time.Unix(0, since-((since%every)+every)%every+int64(j.offset)).UTC()
}

// runJob takes the lock, and runs the command unless the period is done.
func (a *app) runJob(ctx context.Context, job string, j *jobbing) error {
	var lease *zkrecipes.Lease
	client, g, h, err := acquire(ctx, a, job+"/lock", &j.command, &j.waitFlags, func(ctx context.Context, client *zkrecipes.Client) (*held, error) {
		m := zkrecipes.NewMutex(client, job+"/lock")
		var err error
		if lease, err = pick(j.try, m.TryLock, m.Lock)(ctx); err != nil {
			return nil, err
		}
		return heldLease(lease), nil
	})
	if err != nil {
		return err
	}
	defer client.Close()
	r := &jobRun{lease: lease, path: job + "/done"}
	due, err := r.look(ctx, j)
	if err != nil || !due {
		g.Close()
		return errors.Join(err, h.release())
	}
	r.next.Identity = a.identity()
	o, err := a.hold(client, g, h, &j.command, []string{"ZKR_PERIOD=" + r.next.Period.Format(time.RFC3339)},
		func() error { return r.record(ctx) })
	return j.end(job, o, err)
}

// jobRun is a job in one period.
type jobRun struct {
	lease   *zkrecipes.Lease
	path    string    // of the record
	version int32     // of the record; -1 if there is none
	next    view.Done // what is to be recorded
}

// look reports whether the period is still to be done. It is the period in which this call
// joined the line, by the servers' clock: machines whose clocks differ agree on it.
func (r *jobRun) look(ctx context.Context, j *jobbing) (due bool, err error) {
	_, place, err := r.lease.Get(ctx, r.lease.Path()+"/"+path.Base(r.lease.Check().Path))
	if err != nil {
		return false, err
	}
	r.next = view.Done{Period: j.period(time.UnixMilli(place.Ctime)), Token: r.lease.Token()}
	data, stat, err := r.lease.Get(ctx, r.path)
	if errors.Is(err, zk.ErrNoNode) {
		r.version = -1
		return true, nil
	}
	if err != nil {
		return false, err
	}
	var last view.Done
	if err := json.Unmarshal(data, &last); err != nil {
		return false, fmt.Errorf("%s is no record of zkr job: %w", r.path, err)
	}
	r.version = stat.Version
	return r.next.Period.After(last.Period), nil
}

// record records that the period is done, if the lock is still held.
func (r *jobRun) record(ctx context.Context) error {
	r.next.Ended = time.Now().UTC()
	data, err := json.Marshal(r.next)
	if err != nil {
		return err
	}
	op := zkrecipes.OpSet(r.path, data, r.version)
	if r.version < 0 {
		op = zkrecipes.OpCreate(r.path, data, 0, nil)
	}
	_, err = r.lease.Commit(ctx, op)
	if errors.Is(err, zkrecipes.ErrUncertain) {
		return fmt.Errorf("the command has succeeded, and whether that was recorded is not known: %w", err)
	}
	return err
}
