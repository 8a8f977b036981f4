// Bench measures recipes on one ZooKeeper server, in one run. It compares locks with
// a bare create and delete, with go-zookeeper's own Lock, and with those of etcd and Redis,
// barriers with that of ZooKeeper's tutorial, and queues with a plain one. It prints
// tables in Markdown, and says which of the library's performance claims hold.
//
//	go run . [-short] [-run regexp] [-out dir] [-cpuprofile file]
//
// The server comes from where the tests get theirs (ZK_SERVERS, Docker or java, see
// internal/zkserver). With ZK_HARNESS=zktest it is that of package zktest, inside the
// process. That is only good for trying the program out.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"time"
)

// longest bounds a run, even on a busy machine. A run usually takes half an hour.
const longest = 45 * time.Minute

// config holds the values of the flags.
type config struct {
	short   bool
	only    *regexp.Regexp
	out     string // no files if empty
	profile string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	if len(os.Args) > 1 && os.Args[1] == holdMode {
		if err := holdLock(context.Background(), os.Args[2:], os.Stdin, os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	var cfg config
	flag.BoolVar(&cfg.short, "short", false, "a quick run, to check that the program works; its figures mean little")
	flag.StringVar(&cfg.out, "out", "", "write README.md, results.txt and waiters.svg to this `directory`")
	flag.StringVar(&cfg.profile, "cpuprofile", "", "write a profile of the measurements to this `file`")
	flag.Func("run", "measure only what the `regexp` matches", func(s string) (err error) {
		cfg.only, err = regexp.Compile(s)
		return err
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, cfg, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run measures, prints the report and writes the files.
func run(ctx context.Context, cfg config, stdout io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("not done after %v", longest))
	defer cancel()
	lab, err := newLab(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.close()) }()
	if err := lab.startPeers(ctx); err != nil {
		return err
	}

	if cfg.profile != "" {
		f, err := os.Create(cfg.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	rep, err := lab.report(ctx, cfg)
	if err != nil {
		return err
	}
	if err := rep.write(stdout); err != nil || cfg.out == "" {
		return err
	}
	return rep.files(cfg.out)
}

// step is a part of a run that can be selected by its name.
type step struct {
	name    string
	measure func(ctx context.Context) error
}

// report measures what is selected and returns the report.
func (l *lab) report(ctx context.Context, cfg config) (*report, error) {
	rep := &report{Short: cfg.short, Machine: machine(l), Date: time.Now().UTC()}
	began := time.Now()
	if err := l.warm(ctx, cfg.short); err != nil {
		return nil, fmt.Errorf("warming up: %w", cmp.Or(context.Cause(ctx), err))
	}
	for _, s := range l.steps(cfg, rep) {
		if cfg.only != nil && !cfg.only.MatchString(s.name) {
			continue
		}
		log.Printf("%4.0f s  %s", time.Since(began).Seconds(), s.name)
		if err := s.measure(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, cmp.Or(context.Cause(ctx), err))
		}
	}
	log.Printf("%4.0f s  done", time.Since(began).Seconds())
	rep.judge()
	return rep, nil
}

// steps returns the steps in their order. They fill in the report.
func (l *lab) steps(cfg config, rep *report) (list []step) {
	for _, sc := range scenarios(cfg.short) {
		list = append(list, step{sc.name, func(ctx context.Context) error {
			rows, err := l.measure(ctx, sc)
			rep.Rows = append(rep.Rows, rows...)
			return err
		}})
	}
	for _, n := range handedTo(cfg.short) {
		list = append(list, step{fmt.Sprintf("hand-overs, %d waiting", n), func(ctx context.Context) error {
			h, err := l.handOvers(ctx, n)
			rep.HandOvers = append(rep.HandOvers, h)
			return err
		}})
	}
	for _, n := range members(cfg.short) {
		list = append(list, step{fmt.Sprintf("barrier, %d members", n), func(ctx context.Context) error {
			o, err := l.openings(ctx, n, openingRounds(n, cfg.short))
			rep.Openings = append(rep.Openings, o)
			return err
		}})
	}
	items := map[bool]int{true: 1000, false: 100_000}[cfg.short]
	return append(list,
		step{fmt.Sprintf("queue, drained of %d items", items), func(ctx context.Context) (err error) {
			rep.Drain, err = l.drainQueue(ctx, items, 4, 4)
			return err
		}},
		step{"beside etcd and Redis", func(ctx context.Context) error { return l.besideStores(ctx, cfg, rep) }},
		step{"ensemble of 3", func(ctx context.Context) error { return l.measureEnsemble(ctx, cfg, rep) }})
}

// measureEnsemble measures some of the scenarios on three servers, if they can be started.
func (l *lab) measureEnsemble(ctx context.Context, cfg config, rep *report) (err error) {
	if l.provider == nil || cfg.short {
		rep.Machine = append(rep.Machine, [2]string{"Ensemble of three servers", "not measured"})
		return nil
	}
	three, err := l.ensemble(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, three.close()) }()
	if err := three.warm(ctx, cfg.short); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	for _, sc := range ensembleScenarios() {
		rows, err := three.measure(ctx, sc)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		rep.Rows = append(rep.Rows, rows...)
	}
	return nil
}

// files writes the report and its plot.
func (rep *report) files(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{"README.md": rep.writePage, "results.txt": rep.write} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			return err
		}
	}
	if rep.find(nameContended(16), ours) == nil {
		return nil // there is nothing to draw
	}
	return rep.plot(filepath.Join(dir, plotName))
}
