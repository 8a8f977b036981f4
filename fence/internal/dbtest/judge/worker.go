package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
)

const workerRole = "worker"

// params are the parameters of a worker.
type params struct {
	Worker, Start int
	Fenced        bool
	Dialect       fence.Dialect
	ZooKeeper     string
	Driver, DSN   string
}

// report is what a worker writes to its output, a line each.
type report struct {
	Worker  int
	Attempt string `json:",omitempty"`
	Outcome outcome
}

// outcome is what a worker was told about an attempt to write.
type outcome string

const (
	holds     outcome = "holds" // no attempt
	written   outcome = "written"
	refused   outcome = "refused"
	failed    outcome = "failed"
	uncertain outcome = "unknown"
)

func (p params) tell(attempt string, o outcome) {
	line, err := json.Marshal(report{p.Worker, attempt, o})
	if err != nil {
		panic(err) // cannot happen: strings and a number
	}
	os.Stdout.Write(append(line, '\n'))
}

// work takes the lock and writes under it, again and again, until its input ends.
func work(text string) error {
	var p params
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	mysql.SetLogger(log.New(io.Discard, "", 0)) // of each connection that breaks
	db, err := sql.Open(p.Driver, p.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := zkrecipes.Dial(ctx, []string{p.ZooKeeper}, &zkrecipes.Options{SessionTimeout: sessionTimeout})
	if err != nil {
		return ended(ctx, err)
	}
	defer client.Close()
	lock := zkrecipes.NewMutex(client, "/locks/judge")
	w := &writer{params: p, db: db, guard: fence.NewSQL(db, p.Dialect, nil)}
	for {
		lease, err := lock.Lock(ctx)
		if err != nil {
			return ended(ctx, err)
		}
		p.tell("", holds)
		w.turn(ctx, lease)
		lease.Release() // ErrLost, if it has noticed: it goes on all the same
	}
}

// ended returns err unless ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

type writer struct {
	params
	db    *sql.DB
	guard *fence.SQL
	n     int
}

// turn writes some rows. It never looks whether the lease is lost. It ends early if it is refused.
func (w *writer) turn(ctx context.Context, lease *zkrecipes.Lease) {
	for range 1 + rand.IntN(40) {
		if ctx.Err() != nil {
			return
		}
		w.n++
		attempt := fmt.Sprintf("%d.%d.%d", w.Worker, w.Start, w.n)
		o := w.write(lease, attempt)
		w.tell(attempt, o)
		if o == refused {
			return
		}
		time.Sleep(rand.N(20 * time.Millisecond))
	}
}

// write writes the next job.
func (w *writer) write(lease *zkrecipes.Lease, attempt string) outcome {
	ctx := context.Background()
	write := func(tx *sql.Tx) error { return next(ctx, tx, int64(lease.Token()), attempt) }
	if w.Fenced {
		err := w.guard.Do(ctx, lease, write)
		switch {
		case err == nil:
			return written
		case errors.Is(err, fence.ErrFenced):
			return refused
		case errors.Is(err, fence.ErrUncertain):
			return uncertain
		}
		return failed
	}
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return failed
	}
	defer tx.Rollback()
	if err := write(tx); err != nil {
		return failed
	}
	if tx.Commit() != nil {
		return uncertain
	}
	return written
}

// next reads the last job, works for a while, and writes the next one.
func next(ctx context.Context, tx *sql.Tx, token int64, attempt string) error {
	var job, version int64
	if err := tx.QueryRowContext(ctx, "SELECT job FROM work WHERE id = 1").Scan(&job); err != nil {
		return err
	}
	time.Sleep(rand.N(10 * time.Millisecond))
	// The row is locked from here on, so the versions are in the order of the commits.
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE work SET job = %d, version = version + 1 WHERE id = 1", job+1)); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, "SELECT version FROM work WHERE id = 1").Scan(&version); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO journal VALUES (%d, %d, %d, '%s')", version, job+1, token, attempt))
	return err
}
