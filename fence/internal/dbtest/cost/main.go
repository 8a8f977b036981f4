// Command cost measures what a fenced transaction costs beside a plain one, on each database.
//
//	go run ./fence/internal/dbtest/cost [-db postgresql,mariadb,sqlite] [-rounds 60] [-block 50]
//
// Both update one row. They take turns in blocks, and each round gives a ratio of their times. One
// connection, no other load.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest"
)

func main() {
	names := flag.String("db", "postgresql,mariadb,sqlite", "databases")
	rounds := flag.Int("rounds", 60, "how often both take turns")
	block := flag.Int("block", 50, "transactions in a turn")
	flag.Parse()
	for name := range strings.SplitSeq(*names, ",") {
		if err := measure(context.Background(), name, *rounds, *block); err != nil {
			fmt.Fprintln(os.Stderr, "cost:", err)
			os.Exit(1)
		}
	}
}

func measure(ctx context.Context, name string, rounds, block int) error {
	d, err := dbtest.Start(ctx, name)
	if err != nil {
		return err
	}
	defer d.Close()
	db, err := sql.Open(d.DSN("", nil))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	guard := fence.NewSQL(db, d.Dialect, nil)
	if err := guard.Migrate(ctx); err != nil {
		return err
	}
	for _, query := range []string{
		"CREATE TABLE account (id integer NOT NULL PRIMARY KEY, balance bigint NOT NULL)",
		"INSERT INTO account VALUES (1, 0)",
	} {
		if _, err := db.ExecContext(ctx, query); err != nil {
			return err
		}
	}
	write := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + 1 WHERE id = 1")
		return err
	}
	plain := func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := write(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
	fenced := func() error { return guard.Do(ctx, fence.Tokens{"/locks/orders": 256}, write) }

	var plains, fenceds []time.Duration
	var ratios []float64
	for i := range rounds + 5 {
		p, err := timed(block, plain)
		if err != nil {
			return err
		}
		f, err := timed(block, fenced)
		if err != nil {
			return err
		}
		if i >= 5 { // the first ones warm up
			plains, fenceds, ratios = append(plains, p), append(fenceds, f), append(ratios, float64(f)/float64(p))
		}
	}
	slices.Sort(ratios)
	fmt.Printf("%-10s plain %v, fenced %v, ratio %.2f (quartiles %.2f to %.2f), %d rounds of %d\n", d.Name,
		median(plains), median(fenceds), ratios[rounds/2], ratios[rounds/4], ratios[rounds*3/4], rounds, block)
	return nil
}

// timed returns the time of one of n calls.
func timed(n int, call func() error) (time.Duration, error) {
	began := time.Now()
	for range n {
		if err := call(); err != nil {
			return 0, err
		}
	}
	return time.Since(began) / time.Duration(n), nil
}

func median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2].Round(time.Microsecond)
}
