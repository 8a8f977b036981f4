// Package zkserver starts ZooKeeper servers for the tests and the examples.
//
// It uses the first of these that works on this machine:
//
//  1. ZK_SERVERS, a comma separated list of servers that are running already.
//  2. Docker with the image ZK_IMAGE (default zookeeper:3.9). If no registry of
//     images can be reached, the image is built from Debian's packages
//     (image.sh). The engine must run on this machine.
//  3. java with the jars of Debian's libzookeeper-java, as child processes. The
//     jars of a version that this release of Debian lacks come from another
//     release (jars.sh).
//
// ZK_HARNESS=docker allows only the second, ZK_HARNESS=java only the third.
//
// The servers run ZooKeeper 3.9, or the version that their Config names. If 3.9
// cannot be had, they run what there is, and Find reports that. ZK_VERSION=3.8
// makes 3.8 the default and allows no other version. ZK_VERSION=3.9.6 does the
// same with that release. It runs with the image zookeeper:3.9.6, or with java and the
// jars of Debian's unstable release. The image that is built from Debian's packages
// does not have it.
//
// Close removes everything that a Provider has started. If the process panics, is
// killed or exceeds the test timeout, the watcher does (watcher.go).
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

// startTimeout bounds the wait for a server if the context has no deadline. A
// second is usual, but a machine that is building at the same time needs more.
const startTimeout = 90 * time.Second

// A backend runs servers.
type backend interface {
	fmt.Stringer
	// fetch gets a version of ZooKeeper, see Provider.Fetch.
	fetch(ctx context.Context, version string) error
	// create makes n servers without starting them. One is standalone, more
	// than one are an ensemble.
	create(ctx context.Context, n int, cfg Config) ([]server, error)
	// close removes everything that create has made.
	close(ctx context.Context) error
}

// A server is one ZooKeeper server of a backend. Its Node makes one call at a
// time, except for alive and log.
type server interface {
	addr() string
	secureAddr() string // "" without Config.TLS
	start(ctx context.Context) error
	kill(ctx context.Context) error // with SIGKILL; waits until the process has exited
	stop(ctx context.Context) error // with SIGTERM; waits until the process has exited
	pause(ctx context.Context) error
	unpause(ctx context.Context) error
	wipe(ctx context.Context) error // deletes the data; only while not running
	cut(ctx context.Context) error
	heal(ctx context.Context) error
	remove(ctx context.Context) error
	alive(ctx context.Context) error           // nil while the process runs
	dump(ctx context.Context) error            // has the JVM print what its threads do
	log(ctx context.Context, lines int) string // the last ones
}

// A Provider starts servers with the backend that Find has found.
type Provider struct {
	external []string
	backend  backend // nil with external servers

	closeOnce sync.Once
	closeErr  error
}

// Find finds a backend for running ZooKeeper. It can take a minute if an image
// must be built. It reports such steps to logf, which may be nil. If no backend
// works, the error says why each one failed.
func Find(ctx context.Context, logf func(format string, args ...any)) (*Provider, error) {
	if logf == nil {
		logf = func(string, ...any) {}
	}
	if list := os.Getenv("ZK_SERVERS"); list != "" {
		return &Provider{external: strings.Split(list, ",")}, nil
	}
	backends := []struct {
		name string
		find func(context.Context, func(string, ...any)) (backend, error)
	}{
		{"docker", findDocker},
		{"java", findJava},
	}
	only := os.Getenv("ZK_HARNESS")
	failed := []error{errors.New("ZK_SERVERS: not set")}
	for _, w := range backends {
		if only != "" && only != w.name {
			failed = append(failed, fmt.Errorf("%s: excluded by ZK_HARNESS=%s", w.name, only))
			continue
		}
		found, err := w.find(ctx, logf)
		if err == nil {
			return &Provider{backend: found}, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", w.name, err))
		if ctx.Err() != nil { // the failure says nothing about this backend or the next
			return nil, fmt.Errorf("zkserver: find: %w: %w", context.Cause(ctx), errors.Join(failed...))
		}
		logf("zkserver: cannot use %s: %v", w.name, err)
	}
	return nil, fmt.Errorf("zkserver: no way to run ZooKeeper:\n%w", errors.Join(failed...))
}

// String describes what is used, such as "docker image zookeeper:3.9".
func (p *Provider) String() string {
	if p.backend == nil {
		return "external servers " + strings.Join(p.external, ",")
	}
	return p.backend.String()
}

// External returns the servers of ZK_SERVERS, or nil if the Provider starts its
// own. With external servers, Start and StartEnsemble fail.
func (p *Provider) External() []string { return p.external }

// Start runs one standalone server and waits until it serves.
func (p *Provider) Start(ctx context.Context, cfg Config) (*Node, error) {
	e, err := p.StartEnsemble(ctx, 1, cfg)
	if err != nil {
		return nil, err
	}
	return e.Nodes[0], nil
}

// StartEnsemble runs an ensemble of n servers and waits until all of them serve.
// If n is 1, the server is standalone. Without a deadline in ctx it waits for
// 90 s.
func (p *Provider) StartEnsemble(ctx context.Context, n int, cfg Config) (*Ensemble, error) {
	if p.backend == nil {
		return nil, fmt.Errorf("zkserver: start: %s cannot be controlled", p)
	}
	if n < 1 {
		return nil, fmt.Errorf("zkserver: start: %d servers", n)
	}
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	servers, err := p.backend.create(ctx, n, cfg)
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
		// Even if the failure is that ctx has ended, remove the servers.
		ctx, cancel := withDefaultTimeout(context.WithoutCancel(ctx))
		defer cancel()
		return nil, errors.Join(err, e.Remove(ctx))
	}
	return e, nil
}

// Close removes every server, network and file that the Provider has made. Later
// calls return the first result.
func (p *Provider) Close() error {
	p.closeOnce.Do(func() {
		if p.backend == nil {
			return
		}
		ctx, cancel := withDefaultTimeout(context.Background())
		defer cancel()
		if err := p.backend.close(ctx); err != nil {
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
