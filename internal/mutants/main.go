// Mutants shows that the tests find mistakes. Each entry of the tables in this package
// makes one mistake, known from other libraries or possible in this design, and names a
// command that must fail then:
//
//	{
//		name: "writer-skips-readers",
//		what: "A writer waits only for the writers ahead of it.",
//		edits: []edit{{
//			in:  "writersBlock",
//			old: `return own.exclusive() || other.exclusive()`,
//			new: `return other.exclusive()`,
//		}},
//		test: "go test ./internal/sim -run RW -seeds 1000",
//	},
//
// An edit replaces a text that occurs once in a declaration. It does not name the file, so
// it survives a move. If the text of any mutant is gone, or the mutant does not compile,
// nothing runs, and the tests of this package fail.
//
// The command is a go test, possibly behind env. It is split at white space and runs in the
// root of the module. Edits and commands may also be about cmd/zkr, which is a module of its
// own. The edited files are an overlay for the go command, so the tree does not change. Do
// not change it yourself meanwhile. First the unchanged tree must pass all commands, and the
// value of each -run must match a test. It is an error if a mutant is not found, or if go
// test's default time limit ends the command. A mutant that is meant to hang needs a -timeout
// in its command. A table at the end says which test found which mutant.
//
//	go run ./internal/mutants [-fast] [-of n] [-p n] [name...]
//
// With -of n it runs one of n shares of the mutants, which take turns from commit to commit.
// With -fast it runs only the mutants that are found in seconds. A mutant is fast if its
// command runs no simulation, or one with -seeds 200 at most. How long it takes to find a
// mutant is not measured. Most of the time goes into building a test binary for each, some
// five seconds of CPU time.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	fast := flag.Bool("fast", false, "run only mutants whose command runs no simulation, or 200 seeds of one at most")
	p := flag.Int("p", runtime.GOMAXPROCS(0), "number of commands that run side by side")
	shares := flag.Int("of", 1, "run one of so many shares of the mutants, another one at each commit")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *fast, *shares, *p, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, fast bool, shares, p int, names []string) error {
	began := time.Now()
	all, err := named(names)
	if err != nil {
		return err
	}
	src, err := readSource(".", modules...)
	if err != nil {
		return err
	}
	if err := checkAll(ctx, src, all); err != nil {
		return err
	}
	turn, err := countCommits(ctx)
	if err != nil {
		return err
	}
	mutants := choose(all, fast, shares, turn)
	others := len(all) - len(mutants)
	if err := tryUnchanged(ctx, src, p, mutants); err != nil {
		return err
	}
	var missed []error
	var rows []string
	each(p, len(mutants), func(i int) func() {
		r := hunt(ctx, src, mutants[i])
		return func() {
			fmt.Printf("%-24s %s\n", mutants[i].name, r)
			rows = append(rows, r.row(mutants[i].name))
			if r.err != nil {
				missed = append(missed, fmt.Errorf("%s: %w", mutants[i].name, r.err))
			}
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}

	fmt.Println()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "mutant\tfound by\tseed\ttime")
	for _, row := range rows {
		fmt.Fprintln(table, row)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Printf("\n%d mutants in %v, %d problems\n", len(rows), time.Since(began).Round(time.Second), len(missed))
	if others > 0 {
		fmt.Printf("not run, but checked to compile: %d (make mutants runs all)\n", others)
	}
	return errors.Join(missed...)
}

// choose returns the mutants to run. fast: those that are found in seconds. Of these it
// takes one of the shares, the one whose turn it is.
func choose(all []mutant, fast bool, shares, turn int) (chosen []mutant) {
	candidates := 0
	for _, m := range all {
		if fast && !m.fast() {
			continue
		}
		if candidates++; candidates%shares == turn%shares {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// countCommits returns the number of commits of the tree, which tells whose turn it is.
func countCommits(ctx context.Context) (int, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-list", "--count", "HEAD").Output()
	if err != nil {
		return 0, fmt.Errorf("count the commits: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// tryUnchanged runs the mutants' commands on the unchanged tree, where they
// have to pass. Commands that differ in the value of -run only are run as one.
func tryUnchanged(ctx context.Context, src *source, p int, mutants []mutant) error {
	groups := groupByRun(mutants)
	var failed []error
	each(p, len(groups), func(i int) func() {
		began := time.Now()
		err := groups[i].try(ctx, src)
		took := time.Since(began).Round(time.Second)
		return func() {
			if err != nil {
				failed = append(failed, fmt.Errorf("the unchanged tree: %w", err))
				return
			}
			fmt.Printf("%-24s passes in %v: %s\n", "(unchanged)", took, groups[i])
		}
	})
	return cmp.Or(ctx.Err(), errors.Join(failed...))
}

// hunt runs the mutant's command on the source with the mutant's edits.
func hunt(ctx context.Context, src *source, m mutant) (r result) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	changed, err := src.apply(m.edits)
	if err != nil {
		return result{status: "DOES NOT APPLY", err: fmt.Errorf("does not apply: %w", err)}
	}
	overlay, remove, err := src.overlay(changed)
	if err != nil {
		return result{status: "NOT RUN", err: err}
	}
	defer remove()
	// With -v the output says which test was running when the process ended. With -count
	// a mutant that was missed once is not missed again because go test remembers that.
	out, err := src.command(ctx, overlay, withFlags(m.command(), "-v", "-count=1")...)
	switch {
	case err == nil:
		return result{status: "NOT FOUND", err: fmt.Errorf("NOT FOUND by %q (%s)", m.test, m.what)}
	case doesNotBuild(out):
		return result{status: "DOES NOT COMPILE", err: fmt.Errorf("does not compile: %w\n%s", err, out)}
	case hangs(out) && !hasTimeout(m.command()):
		return result{status: "HANGS", err: fmt.Errorf("hangs until go test's default time limit. If it is meant to hang, its command needs a -timeout (%s)", m.what)}
	}
	return result{outcome: parse(out)}
}
