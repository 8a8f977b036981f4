// Package zkserver starts ZooKeeper servers for the tests and the examples.
//
// It takes the first of these ways that works on the machine at hand:
//
//  1. ZK_SERVERS, a comma separated list: servers that run already.
//  2. Docker with the image ZK_IMAGE (default zookeeper:3.9), or, where no
//     registry of images can be reached, with an image that is built from
//     Debian's packages (image.sh). The engine must be on this machine.
//  3. java with the jars of Debian's libzookeeper-java, as child processes.
//
// ZK_HARNESS=docker or =java allows one of the last two only.
//
// Everything a Provider starts is gone after Close, and also when the process
// panics, is killed or runs into the test timeout: see watcher.go.
package zkserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// startTimeout bounds the wait for a server when the context has no deadline
// of its own. A second is usual; a machine that builds beside it needs more.
const startTimeout = 90 * time.Second

// A way is one means to run servers.
type way interface {
	fmt.Stringer
	// create makes n servers that are not running yet: one standalone, more
	// than one as an ensemble.
	create(ctx context.Context, n int, cfg Config) ([]server, error)
	// close removes whatever create has made and has not been removed yet.
	close(ctx context.Context) error
}

// A server is one ZooKeeper server of a way. The Node above it keeps two calls
// from running at the same time, save for alive and log.
type server interface {
	addr() string
	start(ctx context.Context) error
	kill(ctx context.Context) error // SIGKILL, and wait until it is gone
	stop(ctx context.Context) error // SIGTERM, and wait until it is gone
	pause(ctx context.Context) error
	unpause(ctx context.Context) error
	wipe(ctx context.Context) error // lose the data; only while not running
	cut(ctx context.Context) error
	heal(ctx context.Context) error
	remove(ctx context.Context) error
	alive(ctx context.Context) error // nil while the process exists
	log(ctx context.Context) string  // the last lines it wrote
}

// A Provider starts servers in the way that Find has found.
type Provider struct {
	external []string
	way      way // nil with external servers

	closeOnce sync.Once
	closeErr  error
}

// Find picks the way to run ZooKeeper. It can take a minute where an image has
// to be built; logf (may be nil) hears of such steps. When no way works, the
// error names them all and says why each failed.
func Find(ctx context.Context, logf func(format string, args ...any)) (*Provider, error) {
	if logf == nil {
		logf = func(string, ...any) {}
	}
	if list := os.Getenv("ZK_SERVERS"); list != "" {
		return &Provider{external: strings.Split(list, ",")}, nil
	}
	ways := []struct {
		name string
		find func(context.Context, func(string, ...any)) (way, error)
	}{
		{"docker", findDocker},
		{"java", findJava},
	}
	only := os.Getenv("ZK_HARNESS")
	failed := []error{errors.New("ZK_SERVERS: not set")}
	for _, w := range ways {
		if only != "" && only != w.name {
			failed = append(failed, fmt.Errorf("%s: ruled out by ZK_HARNESS=%s", w.name, only))
			continue
		}
		found, err := w.find(ctx, logf)
		if err == nil {
			return &Provider{way: found}, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", w.name, err))
		if ctx.Err() != nil { // says nothing about this way or the next
			return nil, fmt.Errorf("zkserver: find: %w: %w", context.Cause(ctx), errors.Join(failed...))
		}
		logf("zkserver: not with %s: %v", w.name, err)
	}
	return nil, fmt.Errorf("zkserver: no way to run ZooKeeper:\n%w", errors.Join(failed...))
}

// String says which way is used, such as "docker image zookeeper:3.9".
func (p *Provider) String() string {
	if p.way == nil {
		return "external servers " + strings.Join(p.external, ",")
	}
	return p.way.String()
}

// External returns the servers of ZK_SERVERS, or nil when the Provider starts
// its own. External servers can only be used: Start and StartEnsemble fail.
func (p *Provider) External() []string { return p.external }

// Start runs one standalone server and returns when it serves.
func (p *Provider) Start(ctx context.Context, cfg Config) (*Node, error) {
	e, err := p.StartEnsemble(ctx, 1, cfg)
	if err != nil {
		return nil, err
	}
	return e.Nodes[0], nil
}

// StartEnsemble runs n servers that know each other and returns when all of
// them serve, one of them as the leader. With n = 1 the server is standalone.
func (p *Provider) StartEnsemble(ctx context.Context, n int, cfg Config) (*Ensemble, error) {
	if p.way == nil {
		return nil, fmt.Errorf("zkserver: start: %s are not ours to control", p)
	}
	if n < 1 {
		return nil, fmt.Errorf("zkserver: start: %d servers", n)
	}
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	servers, err := p.way.create(ctx, n, cfg)
	if err != nil {
		return nil, fmt.Errorf("zkserver: start %d with %s: %w", n, p, err)
	}
	e := &Ensemble{}
	for i, s := range servers {
		e.Nodes = append(e.Nodes, &Node{id: i + 1, server: s})
	}
	err = e.each(func(node *Node) error { return node.Start(ctx) })
	if err == nil {
		err = e.WaitServing(ctx)
	}
	if err != nil {
		// The caller's context may be the reason. It must not keep the
		// servers from being removed.
		ctx, cancel := withDefaultTimeout(context.WithoutCancel(ctx))
		defer cancel()
		return nil, errors.Join(err, e.Remove(ctx))
	}
	return e, nil
}

// Close removes every server, network and file that the Provider has made. It
// may be called more than once.
func (p *Provider) Close() error {
	p.closeOnce.Do(func() {
		if p.way == nil {
			return
		}
		ctx, cancel := withDefaultTimeout(context.Background())
		defer cancel()
		if err := p.way.close(ctx); err != nil {
			p.closeErr = fmt.Errorf("zkserver: close %s: %w", p, err)
		}
	})
	return p.closeErr
}

func withDefaultTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, startTimeout)
}
