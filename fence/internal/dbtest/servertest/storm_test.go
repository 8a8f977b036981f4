package servertest

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest/suite"
)

var stormLasts = flag.Duration("storm", 10*time.Second, "how long connections fail at random, on each database")

// patience bounds how long the database keeps the locks of a connection that is silent, and how long
// others wait for them.
var patience = map[fence.Dialect]map[string]string{
	fence.PostgreSQL: {"idle_in_transaction_session_timeout": "500", "lock_timeout": "10000"},
	fence.MySQL:      {"idle_write_transaction_timeout": "1", "innodb_lock_wait_timeout": "10"},
}

// Eight holders of one lock, each behind connections that fail at random. None looks whether a later
// one holds: each writes until it is refused, and then gets the next token. Of a holder whose process
// is stopped or killed, a database sees no more than that.
func TestTokensNeverGoBackWhileConnectionsFail(t *testing.T) {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // of each connection that breaks
	for _, d := range databases {
		t.Run(d.Name, func(t *testing.T) {
			s := &storm{World: suite.NewWorld(t, d, nil), told: map[int64]error{}, over: time.Now().Add(*stormLasts)}
			s.journal = s.Balances + "_journal"
			_, err := s.DB.ExecContext(t.Context(), "CREATE TABLE "+s.journal+" (version bigint NOT NULL PRIMARY KEY, token bigint NOT NULL, attempt bigint NOT NULL)")
			require.NoError(t, err)
			var all sync.WaitGroup
			var proxies [8]*dbtest.Proxy
			for i := range proxies {
				proxies[i] = dbtest.NewProxy(t, d.Addr)
				guard := s.Over(suite.OpenWith(t, d, proxies[i].Addr(), patience[d.Dialect]), nil)
				all.Go(func() { s.hold(t, guard) })
			}
			for range 3 { // at one time, so that most connections are well
				all.Go(func() { s.trouble(proxies[:]) })
			}
			all.Wait()
			s.judge(t)
		})
	}
}

// storm is what the holders share.
type storm struct {
	*suite.World
	journal  string // a table: each row is an attempt, in the order of the commits
	over     time.Time
	token    atomic.Int64 // the last one that was given out
	attempts atomic.Int64

	mu   sync.Mutex
	told map[int64]error // what the holders were told about their attempts
}

// hold takes the lock and writes under it, again and again.
func (s *storm) hold(t *testing.T, guard *fence.SQL) {
	for time.Now().Before(s.over) {
		holder := fence.Tokens{"/locks/orders": s.token.Add(1)}
		var err error
		for !errors.Is(err, fence.ErrFenced) && time.Now().Before(s.over) {
			attempt := s.attempts.Add(1)
			err = guard.Do(t.Context(), holder, s.write(t, holder["/locks/orders"], attempt))
			s.mu.Lock()
			s.told[attempt] = err
			s.mu.Unlock()
			time.Sleep(rand.N(20 * time.Millisecond))
		}
		time.Sleep(rand.N(200 * time.Millisecond))
	}
}

// write adds to the balance, which becomes the version of the journal's next row.
func (s *storm) write(t *testing.T, token, attempt int64) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		time.Sleep(rand.N(10 * time.Millisecond)) // in which another one would write, if it could
		if err := s.Add(t.Context())(tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO %s SELECT balance, %d, %d FROM %s", s.journal, token, attempt, s.Balances))
		return err
	}
}

// trouble does one thing after the other to the connections of the holders.
func (s *storm) trouble(proxies []*dbtest.Proxy) {
	for time.Now().Before(s.over) {
		time.Sleep(rand.N(400 * time.Millisecond))
		proxy := proxies[rand.IntN(len(proxies))]
		switch rand.IntN(4) {
		case 0:
			proxy.Drop()
		case 1: // for longer than the database keeps its locks
			proxy.Stall()
			time.Sleep(rand.N(3 * time.Second))
			proxy.Resume()
		case 2:
			proxy.LoseReply()
		case 3:
			c := proxy.HoldCommit()
			time.Sleep(rand.N(2 * time.Second))
			c.Release()
		}
	}
}

// judge compares the rows with each other, and with what the holders were told.
func (s *storm) judge(t *testing.T) {
	nothing := func(*sql.Tx) error { return nil }
	require.NoError(t, s.Fence.Do(t.Context(), fence.Tokens{"/locks/orders": s.token.Add(1)}, nothing), "all earlier ones have ended")
	rows, err := s.DB.QueryContext(t.Context(), "SELECT version, token, attempt FROM "+s.journal+" ORDER BY version")
	require.NoError(t, err)
	defer rows.Close()
	there, count, last := map[int64]bool{}, int64(0), int64(0)
	for rows.Next() {
		var version, token, attempt int64
		require.NoError(t, rows.Scan(&version, &token, &attempt))
		count++
		require.Equal(t, count, version, "an update is lost")
		require.GreaterOrEqual(t, token, last, "row %d is an earlier holder's", version)
		there[attempt], last = true, token
	}
	require.NoError(t, rows.Err())
	require.Equal(t, count, s.Balance(t))
	told := map[string]int{}
	for attempt, err := range s.told {
		switch {
		case err == nil:
			told["written"]++
			require.True(t, there[attempt], "attempt %d", attempt)
		case errors.Is(err, fence.ErrUncertain):
			told["uncertain"]++
		default:
			told["refused or failed"]++
			require.False(t, there[attempt], "attempt %d: %v", attempt, err)
		}
	}
	t.Logf("%d rows of %d tokens: %v", count, s.token.Load(), told)
	require.Len(t, told, 3, "each kind of outcome")
}
