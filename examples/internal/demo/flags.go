package demo

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Env is what all processes of a run share.
type Env struct {
	Servers []string // of the ZooKeeper
	Prefix  string   // of all paths in it, new for each run
}

// Dial connects a process of the run, as a service does. A session timeout of 0 is the
// default.
func (e Env) Dial(ctx context.Context, identity string, sessionTimeout time.Duration) (*zkrecipes.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return zkrecipes.Dial(ctx, e.Servers, &zkrecipes.Options{
		SessionTimeout: sessionTimeout,
		Prefix:         e.Prefix,
		Identity:       identity,
	})
}

// Flags are the flags of a program.
type Flags struct {
	set    *flag.FlagSet
	zk     *string
	checks []func() error
}

// NewFlags returns the flags of the program, with -zk among them.
func NewFlags(program string) *Flags {
	set := flag.NewFlagSet(program, flag.ExitOnError)
	return &Flags{
		set: set,
		zk:  set.String("zk", "", "servers to use, `host:port,...` (default: one in this process)"),
	}
}

// Processes defines a flag for a number of processes. There are 26 at most,
// because a letter stands for each of them.
func (f *Flags) Processes(name string, value, least int, usage string) *int {
	const most = 'Z' - 'A' + 1
	return f.number(name, value, usage, fmt.Sprintf("%d to %d", least, most), func(n int) bool {
		return least <= n && n <= most
	})
}

// Count defines a flag for any other number.
func (f *Flags) Count(name string, value, least int, usage string) *int {
	return f.number(name, value, usage, fmt.Sprintf("at least %d", least), func(n int) bool {
		return least <= n
	})
}

func (f *Flags) number(name string, value int, usage, bounds string, inBounds func(n int) bool) *int {
	n := f.set.Int(name, value, usage+"; "+bounds)
	f.checks = append(f.checks, func() error {
		if !inBounds(*n) {
			return fmt.Errorf("-%s %d: must be %s", name, *n, bounds)
		}
		return nil
	})
	return n
}

// Start parses the arguments and prints which ZooKeeper the run uses: the servers
// of -zk, or else a server in this process that runs until stop is called. Start
// exits if a flag is unknown or malformed, or if help is wanted.
func (f *Flags) Start(args []string) (env Env, stop func(), err error) {
	f.set.Parse(args)
	for _, check := range f.checks {
		if err := check(); err != nil {
			f.set.Usage()
			return Env{}, nil, err
		}
	}
	if f.set.NArg() > 0 {
		f.set.Usage()
		return Env{}, nil, fmt.Errorf("unexpected argument %q", f.set.Arg(0))
	}

	// The znodes that make up the prefix are containers, which the servers delete
	// once they are empty.
	env.Prefix = "/zkrecipes-demo-" + f.set.Name() + "-" + strings.ToLower(rand.Text()[:8])
	if *f.zk != "" {
		fmt.Printf("ZooKeeper: %s (given by -zk)\n", *f.zk)
		env.Servers = strings.Split(*f.zk, ",")
		return env, func() {}, nil
	}
	srv, err := zktest.Start()
	if err != nil {
		return Env{}, nil, err
	}
	fmt.Printf("ZooKeeper: %s (package zktest in this process; use -zk for a real server)\n", srv.Addr())
	env.Servers = []string{srv.Addr()}
	return env, srv.Close, nil
}
