package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/judge"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// startBound is how long a server may take after a fault until it serves. Beside a load of 80, two servers
// have not formed a quorum within a minute.
const startBound = 5 * time.Minute

// errNotServing ends a run: a server does not serve any more, which the judge has been told.
var errNotServing = fmt.Errorf("a server does not serve: %w", errViolated)

// allServe judges that all servers serve.
func (f *faults) allServe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for _, n := range f.ensemble.Nodes {
		if err := f.serves(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// serves judges that a server serves within startBound and carries out a write, and that it
// misses no ACL. A server that cannot read its own data is never wiped: it would hide what the
// library has done to it.
func (f *faults) serves(ctx context.Context, n *zkserver.Node) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	err := n.WaitServing(ctx)
	if err == nil {
		err = f.plain.writes(ctx, n.Addr())
	}
	log := n.Log(context.WithoutCancel(ctx))
	if err == nil && aclMissing.MatchString(log) {
		err = errors.New("it serves, and misses an ACL")
	}
	if err == nil {
		return nil
	}
	dumping, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	fmt.Printf("the threads of %s:\n%s\n", n, n.Threads(dumping))
	text, _, _ := strings.Cut(err.Error(), "\n") // the rest is the log
	return f.notServing(n, fmt.Errorf("%s\n%s", text, log))
}

// aclMissing matches what a server logs when it looks for an ACL that its snapshot lacks.
var aclMissing = regexp.MustCompile(`Failed to fetch acls`)

// notServing tells the judge of a server that does not serve, and ends the processes, which may
// depend on it.
func (f *faults) notServing(n *zkserver.Node, why error) error {
	f.court.do(func(j *judge.Judge) {
		j.Accuse(f.now(), "start", "", fmt.Sprintf("%s does not serve again after a fault: %v", n, why))
	})
	f.fleet.abandon()
	return errNotServing
}

// kills kills the one server and starts it again, for as many times as the options say. It
// ends with the first start that fails.
func (f *faults) kills(ctx context.Context) error {
	node, lasting := f.ensemble.Nodes[0], context.WithoutCancel(ctx)
	succeeded := 0
	for range f.options.kills {
		pause(ctx, f.between(2*time.Second, 4*time.Second))
		if ctx.Err() != nil {
			break
		}
		f.add("killed")
		f.tell(judge.Broken, node, "killed")
		if err := node.Kill(lasting); err != nil {
			return err
		}
		began := time.Now()
		if err := node.Start(lasting); err != nil {
			return err
		}
		err := f.serves(lasting, node)
		f.tell(judge.Broken, node, "started")
		if err != nil {
			fmt.Printf("starts: %d of %d succeeded, and %d were to come; start %d failed after %v\n",
				succeeded, succeeded+1, f.options.kills-succeeded-1, succeeded+1, time.Since(began).Round(time.Millisecond))
			return err
		}
		succeeded++
	}
	fmt.Printf("starts: %d of %d succeeded\n", succeeded, succeeded)
	return nil
}
