// Mutants shows that the tests find mistakes. Each entry of the tables in this package
// breaks one rule of safety, and names the test that must fail then:
//
//	{
//		name: "writer-skips-readers",
//		what: "A writer waits only for the writers ahead of it.",
//		in:   "internal/line",
//		old:  `return own.Exclusive() || other.Exclusive()`,
//		new:  `return other.Exclusive()`,
//		test: "./internal/line -run ^TestDowngradeKeepsTheWritersPlace$",
//	},
//
// The text occurs once in the package's files other than tests. If it does not, or if a mutant
// does not compile, nothing runs, and the tests of this package fail. The test is what go test
// gets. It runs on zktest, must end in minutes, and must fail each time: a simulation, which finds
// a mistake on some of its seeds, will not do.
//
// The edited file is an overlay for the go command, so the tree does not change. Do not change
// it yourself meanwhile. It is an error if a mutant is not found, if it hangs, or if its test
// fails on the unchanged tree, too.
//
//	go run ./internal/mutants [-in package] [-most n] [name...]
//
// With -in it runs those in the package at that path. With -most n it runs n of them, others at
// each commit.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// mutant is a mistake in the code, and the test that must notice it.
type mutant struct{ name, what, in, old, new, test string }

func main() {
	in := flag.String("in", "", "run the mutants in this package, such as internal/line")
	most := flag.Int("most", 0, "run so many of the mutants, others at each commit; 0: all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *in, *most, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in string, most int, names []string) error {
	mutants, err := named(names)
	if err != nil {
		return err
	}
	if in != "" {
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return m.in != in })
	}
	if err := checkAll(ctx, ".", mutants); err != nil {
		return err
	}
	if most > 0 && most < len(mutants) {
		commits, err := exec.CommandContext(ctx, "git", "rev-list", "--count", "HEAD").Output()
		if err != nil {
			return fmt.Errorf("count the commits: %w", err)
		}
		turn, err := strconv.Atoi(strings.TrimSpace(string(commits)))
		if err != nil {
			return err
		}
		mutants = share(mutants, most, turn)
	}
	missed := make([]error, len(mutants))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, m := range mutants {
		g.Go(func() error {
			began := time.Now()
			by, err := m.hunt(ctx, ".")
			if err != nil {
				missed[i], by = fmt.Errorf("%s: %w", m.name, err), "NO TEST"
			}
			fmt.Printf("%-32s %4.0f s  found by %s\n", m.name, time.Since(began).Seconds(), by)
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := errors.Join(missed...); err != nil {
		return err
	}
	fmt.Println("all", len(mutants), "mutants found")
	return nil
}

// named returns the mutants with these names, all if there are none.
func named(names []string) ([]mutant, error) {
	all := slices.Concat(lineMutants, sessionMutants, recipeMutants, queueMutants, shardsMutants)
	if len(names) == 0 {
		return all, nil
	}
	var chosen []mutant
	for _, name := range names {
		i := slices.IndexFunc(all, func(m mutant) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no mutant %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// share returns the next n mutants at each turn.
func share(all []mutant, n, turn int) (chosen []mutant) {
	for i := range n {
		chosen = append(chosen, all[(turn*n+i)%len(all)])
	}
	return chosen
}

// apply returns the file that the mutant changes, and its text then.
func (m mutant) apply(root string) (file, text string, err error) {
	files, err := filepath.Glob(filepath.Join(root, m.in, "*.go"))
	if err != nil {
		return "", "", err
	}
	n := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil {
			return "", "", err
		}
		if k := strings.Count(string(data), m.old); k > 0 {
			n += k
			file, text = f, strings.Replace(string(data), m.old, m.new, 1)
		}
	}
	if n != 1 {
		return "", "", fmt.Errorf("%s has this text %d times, not once: %s", m.in, n, m.old)
	}
	return file, text, nil
}

var failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// hunt runs the mutant's test with its edit, and returns the test function that fails.
func (m mutant) hunt(ctx context.Context, root string) (by string, err error) {
	file, text, err := m.apply(root)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if file, err = filepath.Abs(file); err != nil {
		return "", err
	}
	edited, overlay := filepath.Join(dir, "edited.go"), filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{file: edited}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(edited, []byte(text), 0o644), os.WriteFile(overlay, data, 0o644)); err != nil {
		return "", err
	}
	out, err := m.goTest(ctx, root, "-count=1", "-overlay="+overlay)
	switch found := failLine.FindSubmatch(out); {
	case err == nil:
		return "", fmt.Errorf("not found by %q: %s", m.test, m.what)
	case bytes.Contains(out, []byte("panic: test timed out")):
		return "", fmt.Errorf("hangs in %q", m.test)
	case found != nil:
		by = string(found[1])
	case bytes.Contains(out, []byte("panic: ")):
		by = "a panic"
	default:
		return "", fmt.Errorf("no test has failed: %w\n%s", err, out)
	}
	if out, err := m.goTest(ctx, root); err != nil {
		return "", fmt.Errorf("its test fails without it, too: %w\n%s", err, out)
	}
	return by, nil
}

// goTest runs the mutant's test and returns its output.
func (m mutant) goTest(ctx context.Context, root string, flags ...string) ([]byte, error) {
	// Building the test binaries is most of the work. It is quicker without inlining and DWARF.
	args := slices.Concat([]string{"test", "-timeout=5m", "-vet=off", "-ldflags=-w", "-gcflags=./...=-l -dwarf=false"}, flags, strings.Fields(m.test))
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "ZK_HARNESS=zktest")
	return cmd.CombinedOutput()
}
