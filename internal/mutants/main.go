// Mutants shows that the tests find mistakes. Each patch in this folder makes
// one mistake, known from other libraries or possible in this design, and names
// a command that must fail then. A patch begins with two lines of text:
//
//	Any event opens a Gate.
//	Found by: go test ./internal/sim -run ^TestGate -seeds 100
//
// The command is a go test, possibly behind env. It is split at white space and
// runs in the root of a copy of the tree. First the unchanged tree must pass all
// commands, and the value of each -run must match a test. Then the patches are
// applied and taken back, one at a time in each copy. It is an error if a patch
// does not apply, does not compile, or is not found, or if go test's default time
// limit ends the command. A mutant that is meant to hang needs a -timeout in its
// command. A table at the end says which test found which mutant.
//
//	go run ./internal/mutants [-fast] [-of n] [-p n] [name...]
//
// With -of n it runs one of n shares of the mutants, which take turns from commit to
// commit, and checks that the patches of the others apply. With -fast it runs only the
// mutants that are found in seconds, and checks that the patches of the others apply. A
// mutant is fast if its command runs no simulation, or one with -seeds 200 at most. How
// long it takes to find a mutant is not measured. Most of the time goes into building a
// test binary for each, some eight seconds of CPU time.
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
	p := flag.Int("p", runtime.GOMAXPROCS(0), "number of commands that run side by side, each in its own copy of the tree")
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
	all, err := read(folder, names)
	if err != nil {
		return err
	}
	turn, err := countCommits(ctx)
	if err != nil {
		return err
	}
	mutants, others := choose(all, fast, shares, turn)
	t, err := copyTrees(ctx, p)
	if err != nil {
		return err
	}
	defer t.remove()

	if err := tryUnchanged(ctx, t, mutants); err != nil {
		return err
	}
	var missed []error
	var rows []string
	t.each(len(mutants), func(tree string, i int) func() {
		r := hunt(ctx, tree, mutants[i])
		return func() {
			fmt.Printf("%-24s %s\n", mutants[i].name, r)
			rows = append(rows, r.row(mutants[i].name))
			if r.err != nil {
				missed = append(missed, fmt.Errorf("%s: %w", mutants[i].name, r.err))
			}
		}
	})
	for _, m := range others {
		if out, err := command(ctx, t[0], "git", "apply", "--check", m.patch); err != nil {
			missed = append(missed, fmt.Errorf("%s: does not apply: %w\n%s", m.name, err, out))
		}
	}
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
	if len(others) > 0 {
		fmt.Printf("not run, but checked to apply: %d (make mutants runs all)\n", len(others))
	}
	return errors.Join(missed...)
}

// choose returns the mutants to run, and the others. fast: those that are found in
// seconds. Of these it takes one of the shares, the one whose turn it is.
func choose(all []mutant, fast bool, shares, turn int) (chosen, others []mutant) {
	candidates := 0
	for _, m := range all {
		if fast && !m.fast() {
			others = append(others, m)
			continue
		}
		if candidates++; candidates%shares == turn%shares {
			chosen = append(chosen, m)
		} else {
			others = append(others, m)
		}
	}
	return chosen, others
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
func tryUnchanged(ctx context.Context, t trees, mutants []mutant) error {
	groups := groupByRun(mutants)
	var failed []error
	t.each(len(groups), func(tree string, i int) func() {
		began := time.Now()
		err := groups[i].try(ctx, tree)
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

// hunt applies the mutant's patch, runs its command, and takes the patch back.
func hunt(ctx context.Context, tree string, m mutant) (r result) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	if out, err := command(ctx, tree, "git", "apply", m.patch); err != nil {
		return result{status: "DOES NOT APPLY", err: fmt.Errorf("does not apply: %w\n%s", err, out)}
	}
	defer func() {
		if out, err := command(ctx, tree, "git", "apply", "--reverse", m.patch); err != nil {
			r.err = errors.Join(r.err, fmt.Errorf("cannot be taken back: %w\n%s", err, out))
		}
	}()
	out, err := command(ctx, tree, verbose(m.command)...)
	switch {
	case err == nil:
		return result{status: "NOT FOUND", err: fmt.Errorf("NOT FOUND by %q (%s)", strings.Join(m.command, " "), m.what)}
	case doesNotBuild(out):
		return result{status: "DOES NOT COMPILE", err: fmt.Errorf("does not compile: %w\n%s", err, out)}
	case hangs(out) && !hasTimeout(m.command):
		return result{status: "HANGS", err: fmt.Errorf("hangs until go test's default time limit. If it is meant to hang, its command needs a -timeout (%s)", m.what)}
	}
	return result{outcome: parse(out)}
}
