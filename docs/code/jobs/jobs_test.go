package jobs

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/docs/code/internal/codetest"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// base is a database that knows what the statements of runOnce and due mean, and nothing
// else. A transaction has it to itself.
type base struct {
	alone  sync.Mutex
	fences map[string]int64
	done   map[string]int64 // by job and period
	today  string
	days   []string // that due knows
	idle   func()   // called when nothing is due
}

func newBase() *base {
	return &base{fences: map[string]int64{}, done: map[string]int64{}, idle: func() {}}
}

func (b *base) Connect(context.Context) (driver.Conn, error) { return &conn{base: b}, nil }
func (b *base) Driver() driver.Driver                        { return nil }

// conn is a connection, and its transaction.
type conn struct {
	*base
	fences, done map[string]int64 // as they are if the transaction is rolled back
}

func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *conn) Close() error                        { return nil }

func (c *conn) Begin() (driver.Tx, error) {
	c.alone.Lock()
	c.fences, c.done = maps.Clone(c.base.fences), maps.Clone(c.base.done)
	return c, nil
}

func (c *conn) Commit() error {
	c.alone.Unlock()
	return nil
}

func (c *conn) Rollback() error {
	c.base.fences, c.base.done = c.fences, c.done
	c.alone.Unlock()
	return nil
}

func (c *conn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.Contains(query, "INTO zkrecipes_fence") {
		lock, token := args[0].Value.(string), args[1].Value.(int64)
		if fence, ok := c.base.fences[lock]; ok && fence > token {
			return driver.RowsAffected(0), nil
		}
		c.base.fences[lock] = token
		return driver.RowsAffected(1), nil
	}
	key := args[0].Value.(string) + " " + args[1].Value.(string)
	if _, ok := c.base.done[key]; ok {
		return driver.RowsAffected(0), nil
	}
	c.base.done[key] = args[2].Value.(int64)
	return driver.RowsAffected(1), nil
}

// QueryContext answers due.
func (c *conn) QueryContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Rows, error) {
	c.alone.Lock()
	defer c.alone.Unlock()
	for _, day := range c.days {
		if _, ok := c.base.done[args[0].Value.(string)+" "+day]; !ok && day < c.today {
			return &row{base: c.base, day: day}, nil
		}
	}
	return &row{base: c.base, end: true}, nil
}

type row struct {
	*base
	day string
	end bool
}

func (r *row) Columns() []string { return []string{"day"} }

func (r *row) Close() error {
	if r.day == "" {
		r.idle()
	}
	return nil
}

func (r *row) Next(dest []driver.Value) error {
	if r.end {
		return io.EOF
	}
	dest[0], r.end = r.day, true
	return nil
}

const (
	lockPath = "/locks/report"
	monday   = "2026-06-01"
)

func open(t *testing.T, b *base) *sql.DB {
	db := sql.OpenDB(b)
	t.Cleanup(func() { db.Close() })
	return db
}

func TestAPeriodIsDoneOnceHoweverManyProcessesAsk(t *testing.T) {
	srv, db := zktest.NewServer(t), open(t, newBase())
	var worked []string
	var processes sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		lock := zkrecipes.NewMutex(codetest.Dial(t, srv), lockPath)
		processes.Go(func() {
			errs[i] = runOnce(t.Context(), lock, fence.NewSQL(db, fence.PostgreSQL, nil), monday, func(_ context.Context, _ *sql.Tx, day string) error {
				worked = append(worked, day)
				return nil
			})
		})
	}
	processes.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, []string{monday}, worked)
}

func TestAPeriodWhoseWorkFailedIsDoneByTheNext(t *testing.T) {
	srv, b := zktest.NewServer(t), newBase()
	db, lock := open(t, b), zkrecipes.NewMutex(codetest.Dial(t, srv), lockPath)
	failed := errors.New("disk full")
	require.ErrorIs(t, runOnce(t.Context(), lock, fence.NewSQL(db, fence.PostgreSQL, nil), monday, func(context.Context, *sql.Tx, string) error { return failed }), failed)
	require.Empty(t, b.done)
	require.NoError(t, runOnce(t.Context(), lock, fence.NewSQL(db, fence.PostgreSQL, nil), monday, func(context.Context, *sql.Tx, string) error { return nil }))
	require.Len(t, b.done, 1)
}

func TestAPeriodIsNotDoneIfTheLockIsLost(t *testing.T) {
	srv, b := zktest.NewServer(t), newBase()
	db, lock := open(t, b), zkrecipes.NewMutex(codetest.Dial(t, srv), lockPath)
	err := runOnce(t.Context(), lock, fence.NewSQL(db, fence.PostgreSQL, nil), monday, func(ctx context.Context, _ *sql.Tx, _ string) error {
		srv.Expire(srv.Sessions()[0].ID)
		<-ctx.Done()
		b.alone.Lock() // wait until database/sql has rolled back in the background
		defer b.alone.Unlock()
		return nil
	})
	require.ErrorIs(t, err, zkrecipes.ErrLost)
	require.Empty(t, b.done)
}

func TestALaterHoldersFenceRefusesTheWork(t *testing.T) {
	srv, b := zktest.NewServer(t), newBase()
	db, lock := open(t, b), zkrecipes.NewMutex(codetest.Dial(t, srv), lockPath)
	b.fences[lockPath] = 1 << 62
	err := runOnce(t.Context(), lock, fence.NewSQL(db, fence.PostgreSQL, nil), monday, func(context.Context, *sql.Tx, string) error {
		t.Error("worked")
		return nil
	})
	require.ErrorIs(t, err, fence.ErrFenced)
	require.NotErrorIs(t, err, zkrecipes.ErrLost, "the fence is ahead")
	require.Empty(t, b.done)
}

func TestNightlyCatchesUpAndEndsWithItsContext(t *testing.T) {
	srv, b := zktest.NewServer(t), newBase()
	b.days, b.today = []string{monday, "2026-06-02", "2026-06-03"}, "2026-06-03"
	db, client := open(t, b), codetest.Dial(t, srv)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.idle = cancel // ctx ends while due closes its rows, so due may return no error
	var days []string
	err := nightly(ctx, client, db, func(_ context.Context, _ *sql.Tx, day string) error {
		days = append(days, day)
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{monday, "2026-06-02"}, days)
}

func TestNightlyEndsWithTheClient(t *testing.T) {
	srv, b := zktest.NewServer(t), newBase()
	b.days, b.today = []string{monday}, "2026-06-03"
	db, client := open(t, b), codetest.Dial(t, srv)
	require.NoError(t, client.Close())
	require.ErrorIs(t, nightly(t.Context(), client, db, nil), zkrecipes.ErrClosed)
}
