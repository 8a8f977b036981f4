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
// The servers belong to another process, the launcher, which is a Go module of its own
// (directory launcher): it needs testcontainers-go, which programs that import the root of
// this repository do not. This package has the standard library only. It starts the
// launcher with the go command.
//
// Close removes everything that a Provider has started. If the process panics, is
// killed or exceeds the test timeout, the launcher notices the end of its standard input
// and exits. If the launcher exits or is killed, its watcher removes everything.
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
// second is usual, but a machine with a load of 80 has needed more than 90.
const startTimeout = 10 * time.Minute

// A Provider starts servers in the way that Find has found.
type Provider struct {
	external []string
	launcher *launcher // nil with external servers
	name     string
	traces   *Traces

	closeOnce sync.Once
	closeErr  error
}

// Find finds a way to run ZooKeeper. It can take a minute if an image must be built, and
// some seconds to build the launcher. It reports such steps to logf, which may be nil. Later
// calls of the Provider's methods use logf, too. If no way works, the error says why each
// one failed.
func Find(ctx context.Context, logf func(format string, args ...any)) (*Provider, error) {
	if list := os.Getenv("ZK_SERVERS"); list != "" {
		return &Provider{external: strings.Split(list, ",")}, nil
	}
	return findOnly(ctx, logf, os.Getenv("ZK_HARNESS"))
}

// FindJava is like Find but allows java only, whatever the environment says. Servers that are
// processes of this machine can read its files: JVMFlags may name files of a test.
func FindJava(ctx context.Context, logf func(format string, args ...any)) (*Provider, error) {
	return findOnly(ctx, logf, "java")
}

// findOnly finds a way to run ZooKeeper, the one with that name unless it is empty.
func findOnly(ctx context.Context, logf func(format string, args ...any), only string) (*Provider, error) {
	if logf == nil {
		logf = func(string, ...any) {}
	}
	l, err := startLauncher(logf, only)
	if err != nil {
		return nil, fmt.Errorf("zkserver: start the launcher: %w", err)
	}
	stop := context.AfterFunc(ctx, l.abort)
	reply, err := l.call(ctx, Request{Op: OpFind})
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		l.close() // fails if it was aborted
		return nil, fmt.Errorf("zkserver: find: %w", err)
	}
	return &Provider{launcher: l, name: reply.Text, traces: reply.Traces}, nil
}

// String describes what is used, such as "docker image zookeeper:3.9".
func (p *Provider) String() string {
	if p.launcher == nil {
		return "external servers " + strings.Join(p.external, ",")
	}
	return p.name
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
// If n is 1, the server is standalone unless cfg.Quorum is set. Without a deadline
// in ctx it waits for 10 minutes.
func (p *Provider) StartEnsemble(ctx context.Context, n int, cfg Config) (*Ensemble, error) {
	if p.launcher == nil {
		return nil, fmt.Errorf("zkserver: start: %s cannot be controlled", p)
	}
	if n < 1 {
		return nil, fmt.Errorf("zkserver: start: %d servers", n)
	}
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	servers, err := p.create(ctx, n, cfg)
	if err != nil {
		return nil, fmt.Errorf("zkserver: start %d with %s: %w", n, p, err)
	}
	e := &Ensemble{}
	for i, s := range servers {
		e.Nodes = append(e.Nodes, &Node{id: i + 1, launcher: p.launcher, server: s})
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

func (p *Provider) create(ctx context.Context, n int, cfg Config) ([]ServerInfo, error) {
	lines, err := cfg.lines()
	if err != nil {
		return nil, err
	}
	spec := &Spec{
		Servers: n, Quorum: n > 1 || cfg.Quorum, Version: cfg.Version, Lines: lines, Flags: cfg.jvmFlags(), Files: cfg.Files,
	}
	if cfg.TLS != nil {
		cfg.TLS.addTo(spec)
	}
	reply, err := p.launcher.call(ctx, Request{Op: OpCreate, Spec: spec})
	return reply.Servers, err
}

// Close removes every server, network and file that the Provider has made. Later
// calls return the first result.
func (p *Provider) Close() error {
	p.closeOnce.Do(func() {
		if p.launcher == nil {
			return
		}
		ctx, cancel := withDefaultTimeout(context.Background())
		defer cancel()
		_, err := p.launcher.call(ctx, Request{Op: OpClose})
		if err := errors.Join(err, p.launcher.close()); err != nil {
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
