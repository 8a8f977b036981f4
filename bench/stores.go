package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// This library on ZooKeeper is compared with locks of etcd and Redis. Each server is one
// process with its own defaults, so etcd forces each write to the disk before it replies,
// and Redis none. As ZooKeeper does by default what etcd does, but the lab's server does
// not, this library is measured on both kinds of server.

const (
	forced = ours + ", forced log"
	etcd   = "etcd"
	redisS = "Redis"
)

// system is a server with locks.
type system struct {
	name, addr string
	open       opener
}

// store is a server that is started beside the lab's.
type store struct {
	name, program, debian string
	args                  func(dir, host, port string) []string
	open                  opener
}

func stores() []store {
	return []store{
		{etcd, "etcd", "etcd-server", func(dir, host, port string) []string {
			url := "http://" + net.JoinHostPort(host, port)
			return []string{"--data-dir", dir, "--listen-client-urls", url, "--advertise-client-urls", url,
				"--listen-peer-urls", "http://127.0.0.1:0"}
		}, openEtcd},
		{redisS, "redis-server", "redis-server", func(dir, host, port string) []string {
			return []string{"--bind", host, "--port", port, "--dir", dir}
		}, openRedis},
	}
}

// untilStdinEnds runs a server that ends with its stdin: also if this process is killed.
const untilStdinEnds = `"$@" >&2 </dev/null & echo ok; read _; kill -9 $!; wait`

// start starts the store's server in a directory, and returns its address and version.
func (s store) start(ctx context.Context, dir string) (w *worker, addr, version string, err error) {
	path, err := exec.LookPath(s.program)
	if err != nil {
		return nil, "", "", fmt.Errorf("there is no %s (Debian: %s)", s.program, s.debian)
	}
	about, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return nil, "", "", err
	}
	version = string(regexp.MustCompile(`\d+\.\d+\.\d+`).Find(about))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", "", err
	}
	addr = l.Addr().String()
	l.Close()
	host, port, _ := net.SplitHostPort(addr)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, "", "", err
	}
	args := append([]string{"sh", "-c", untilStdinEnds, "sh", path}, s.args(dir, host, port)...)
	if w, _, err = startWorker(context.WithoutCancel(ctx), args); err != nil {
		return nil, "", "", err
	}
	if err := awaitServer(ctx, addr); err != nil {
		w.end()
		return nil, "", "", fmt.Errorf("%s does not serve: %w: %s", s.program, err, w.stderr)
	}
	return w, addr, version, nil
}

func awaitServer(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			return nc.Close()
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// systems starts what is compared, and returns what ends it. A store that cannot be started
// is listed in the report, with the reason.
func (l *lab) systems(ctx context.Context, short bool, rep *report) (list []system, end func() error, err error) {
	dir, err := os.MkdirTemp("", "bench-stores-")
	if err != nil {
		return nil, nil, err
	}
	ends := []func() error{func() error { return os.RemoveAll(dir) }}
	end = func() (err error) {
		for _, f := range slices.Backward(ends) {
			err = errors.Join(err, f())
		}
		return err
	}
	list = []system{{ours, l.servers[0], openZooKeeper}}
	if l.provider != nil {
		cfg := serverConfig()
		cfg.JVMFlags = append(cfg.JVMFlags, "-Dzookeeper.forceSync=yes")
		node, err := l.provider.Start(ctx, cfg)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		ends = append(ends, func() error { return node.Stop(context.WithoutCancel(ctx)) })
		list = append(list, system{forced, node.Addr(), openZooKeeper})
		if err := (&lab{servers: []string{node.Addr()}}).warm(ctx, short); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("warming up: %w", err), end())
		}
	}
	for _, s := range stores() {
		w, addr, about, err := s.start(ctx, filepath.Join(dir, s.program))
		if err != nil {
			about = "not measured: " + err.Error()
		} else {
			ends = append(ends, func() error { w.end(); return nil })
			list = append(list, system{s.name, addr, s.open})
		}
		rep.Machine = append(rep.Machine, [2]string{s.name, about})
	}
	return list, end, nil
}

// besideStores measures a free lock, contended locks, hand-overs and dead holders.
func (l *lab) besideStores(ctx context.Context, cfg config, rep *report) (err error) {
	systems, end, err := l.systems(ctx, cfg.short, rep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	list := []scenario{{name: nameFree, workers: 1, block: 300, rounds: 15}}
	for _, n := range waiters(true) {
		list = append(list, scenario{name: nameContended(n), workers: n, lead: 2 * n, block: 1000, rounds: 7})
	}
	times := map[bool]int{true: 1, false: 9}[cfg.short]
	for _, sc := range list {
		if cfg.short {
			sc.block, sc.rounds = 4*sc.workers, 1
		}
		sc.open = openSystems(systems, sc.workers)
		rows, err := l.measure(ctx, sc)
		if err != nil {
			return err
		}
		rep.Stores = append(rep.Stores, rows...)
	}
	for _, n := range waiters(true) {
		list, err := l.passes(ctx, systems, n, times)
		if err != nil {
			return err
		}
		rep.Passes = append(rep.Passes, list...)
	}
	rep.Deaths, err = l.deaths(ctx, systems, times)
	return err
}

// locks opens n clients that use one lock.
func (s system) locks(fx *fixture, n int) ([]lock, error) {
	locks := make([]lock, n)
	return locks, each(n, func(i int) error {
		l, end, err := s.open(fx.ctx, s.addr, fx.path+"/stores", sessionTimeout)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fx.atEnd(end)
		locks[i] = l
		return nil
	})
}

// openSystems opens n clients of each system.
func openSystems(systems []system, n int) func(fx *fixture) ([]side, error) {
	return func(fx *fixture) (sides []side, err error) {
		for _, s := range systems {
			locks, err := s.locks(fx, n)
			if err != nil {
				return nil, err
			}
			sides = append(sides, newSide(s.name, new(tally), n, func(i int) lock { return locks[i] }))
		}
		return sides, nil
	}
}

// storePassage is how fast a lock of a system went once through a number of waiters, on average.
type storePassage struct {
	System string
	N      int // waiters
	passage
}

// passes lets a lock pass through n waiters, some times. Nothing shows that all wait: they
// have half a second for it, and up to a tick more, so that no system's ticks favor it.
func (l *lab) passes(ctx context.Context, systems []system, n, times int) (list []storePassage, err error) {
	fx := l.fixture(ctx, limit)
	defer fx.close()
	for _, s := range systems {
		locks, err := s.locks(fx, 1+n)
		if err != nil {
			return nil, err
		}
		sum := storePassage{System: s.name, N: n}
		for range times {
			p, err := pass(ctx, locks[0], locks[1:], new(tally), func() (int, error) {
				return 1 + n, hold(rand.N(redisPolls / 5))
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			sum.waiters, sum.time = sum.waiters+n, sum.time+p.time
		}
		list = append(list, sum)
	}
	return list, nil
}
