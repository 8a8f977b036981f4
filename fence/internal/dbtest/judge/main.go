// Command judge shows that a fence keeps the order of holders in a real database, and that without
// it the order is broken. Eight processes take turns under one lock and write to the database,
// while they are stopped beyond their session, killed, and cut off from ZooKeeper and from the
// database, at random. None of them looks whether it still holds the lock: each goes on until it is
// refused.
//
//	go run ./fence/internal/dbtest/judge -db postgresql [-duration 10m] [-processes 8] [-seed n]
//
// It runs first with package fence and then without, each for the duration, and fails if the first
// run breaks a rule or the second one breaks none:
//
//   - The tokens of the rows, in the order in which the database has committed them, never go back.
//   - No job is written by two holders. Without a lost row, the jobs are 1, 2, 3 and so on.
//   - What a process was told was written is there, and what it was told was not written is not.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/fence/internal/dbtest"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == workerRole {
		if err := work(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := judge(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

func judge(ctx context.Context) error {
	name := flag.String("db", "sqlite", "postgresql, mariadb or sqlite")
	duration := flag.Duration("duration", 10*time.Minute, "of each of the two runs")
	processes := flag.Int("processes", 8, "how many take turns")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the faults")
	flag.Parse()
	if *processes < 4 {
		return errors.New("-processes: 4 at least, of which 3 suffer at one time")
	}

	d, err := dbtest.Start(ctx, *name)
	if err != nil {
		return err
	}
	defer d.Close()
	fmt.Printf("%s, %d processes, %v each, seed %d\n", d.Name, *processes, *duration, *seed)
	for _, fenced := range []bool{true, false} {
		r := &run{Database: d, fenced: fenced, rng: rand.New(rand.NewPCG(*seed, 0))}
		if err := r.play(ctx, *processes, *duration); err != nil {
			return err
		}
		rows, err := r.rows(ctx)
		if err != nil {
			return err
		}
		v := compare(rows, r.outcomes)
		v.fenced, v.faults = fenced, r.faults
		fmt.Println(v)
		if err := v.err(); err != nil {
			return err
		}
	}
	return nil
}

// verdict is what a run has come to.
type verdict struct {
	fenced                              bool
	faults                              map[string]int
	rows, holders                       int
	written, refused, failed, uncertain int
	back, twice, gaps, missing, unsaid  int
	examples                            []string // of what was broken
}

// broken counts what must not happen.
func (v *verdict) broken() int { return v.back + v.twice + v.gaps + v.missing + v.unsaid }

// err returns what is wrong with the run, if anything is.
func (v *verdict) err() error {
	switch {
	case v.fenced && v.broken() > 0:
		return errors.New("the fence has let something through")
	case v.fenced && v.refused == 0:
		return errors.New("no write was refused: the run shows nothing")
	case !v.fenced && v.broken() == 0:
		return errors.New("without the fence nothing was broken: the run shows nothing")
	}
	return nil
}

func (v *verdict) String() string {
	title := "without the fence"
	if v.fenced {
		title = "with the fence"
	}
	text := fmt.Sprintf("%s: %d rows of %d holders; replies: written %d, refused %d, failed %d, unknown %d; faults:",
		title, v.rows, v.holders, v.written, v.refused, v.failed, v.uncertain)
	for _, fault := range slices.Sorted(maps.Keys(v.faults)) {
		text += fmt.Sprintf(" %s %d", fault, v.faults[fault])
	}
	text += fmt.Sprintf("\n  broken: tokens that went back %d, jobs of two holders %d, jobs out of order %d, written and not there %d, there and not written %d",
		v.back, v.twice, v.gaps, v.missing, v.unsaid)
	for _, example := range v.examples {
		text += "\n    " + example
	}
	return text
}

func (v *verdict) note(count *int, format string, args ...any) {
	if *count++; *count == 1 {
		v.examples = append(v.examples, "such as "+fmt.Sprintf(format, args...))
	}
}

// row is one that a process has written.
type row struct {
	version, job, token int64
	attempt             string
}

// compare compares the rows, in their order, with the rules, and with what the processes were told
// about their attempts.
func compare(rows []row, outcomes map[string]outcome) *verdict {
	v := &verdict{rows: len(rows)}
	there, writers, tokens := map[string]bool{}, map[int64]int64{}, map[int64]bool{}
	last := row{}
	for _, w := range rows {
		there[w.attempt], tokens[w.token] = true, true
		if w.token < last.token {
			v.note(&v.back, "row %d under token %d, after row %d under token %d", w.version, w.token, last.version, last.token)
		}
		if first, ok := writers[w.job]; ok && first != w.token {
			v.note(&v.twice, "job %d under token %d, and under token %d", w.job, first, w.token)
		}
		if w.job != w.version {
			v.note(&v.gaps, "job %d in row %d", w.job, w.version)
		}
		writers[w.job], last = w.token, w
	}
	v.holders = len(tokens)
	for attempt, outcome := range outcomes {
		switch outcome {
		case written:
			v.written++
			if !there[attempt] {
				v.note(&v.missing, "attempt %s", attempt)
			}
		case refused, failed:
			if outcome == refused {
				v.refused++
			} else {
				v.failed++
			}
			if there[attempt] {
				v.note(&v.unsaid, "attempt %s, %s", attempt, outcome)
			}
		case uncertain:
			v.uncertain++
		}
	}
	return v
}

func (r *run) rows(ctx context.Context) (rows []row, err error) {
	db, err := sql.Open(r.DSN("", nil))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	found, err := db.QueryContext(ctx, "SELECT version, job, token, attempt FROM journal")
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var w row
		if err := found.Scan(&w.version, &w.job, &w.token, &w.attempt); err != nil {
			return nil, err
		}
		rows = append(rows, w)
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.version, b.version) })
	return rows, found.Err()
}

// prepare creates the tables anew.
func (r *run) prepare(ctx context.Context) error {
	db, err := sql.Open(r.DSN("", nil))
	if err != nil {
		return err
	}
	defer db.Close()
	for _, query := range []string{
		"DROP TABLE IF EXISTS journal",
		"DROP TABLE IF EXISTS work",
		"DROP TABLE IF EXISTS zkrecipes_fence",
		"CREATE TABLE journal (version bigint NOT NULL PRIMARY KEY, job bigint NOT NULL, token bigint NOT NULL, attempt varchar(100) NOT NULL)",
		"CREATE TABLE work (id integer NOT NULL PRIMARY KEY, version bigint NOT NULL, job bigint NOT NULL)",
		"INSERT INTO work VALUES (1, 0, 0)",
	} {
		if _, err := db.ExecContext(ctx, query); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	return fence.NewSQL(db, r.Dialect, nil).Migrate(ctx)
}
