package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// lab is the server, or the ensemble, on which something is measured.
type lab struct {
	servers  []string
	kind     string             // of server, for the report
	provider *zkserver.Provider // nil if it can start no more servers
	close    func() error
	peers    []*peer
}

// newLab finds or starts the server. One that it starts is standalone, and fast rather
// than durable (zkserver.Config: it does not force its log to the disk). That is the
// harder test for a client: if each write waits for a disk and a quorum, the client's
// own share of the time is smaller.
func newLab(ctx context.Context) (*lab, error) {
	if os.Getenv("ZK_HARNESS") == "zktest" {
		srv, err := zktest.Start(zktest.SessionTimeouts(time.Second, time.Minute))
		if err != nil {
			return nil, err
		}
		return &lab{
			servers: []string{srv.Addr()},
			kind:    "zktest, inside the process: not a real ZooKeeper, and its allocations and times are included",
			close:   func() error { srv.Close(); return nil },
		}, nil
	}
	provider, err := zkserver.Find(ctx, log.Printf)
	if err != nil {
		return nil, err
	}
	l := &lab{servers: provider.External(), kind: "a server that was already running", close: provider.Close}
	if l.servers == nil {
		node, err := provider.Start(ctx, serverConfig())
		if err != nil {
			return nil, errors.Join(err, provider.Close())
		}
		l.provider, l.servers = provider, []string{node.Addr()}
		way, _, _ := strings.Cut(provider.String(), " ")
		l.kind = "standalone, by " + way + ", its log not forced to the disk"
	}
	l.servers = l.servers[:1]
	version, err := serverVersion(ctx, l.servers[0])
	if err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	l.kind = version + ", " + l.kind
	return l, nil
}

func serverConfig() zkserver.Config {
	return zkserver.Config{
		TickTime: 2 * time.Second, // the usual one
		JVMFlags: []string{
			"-Xmx1g",
			"-XX:TieredStopAtLevel=4", // compile as by default: unlike in a test, the server need not be up at once
		},
		ReapEvery: time.Hour, // do not delete a line that is idle while the other side has its turn
	}
}

// ensemble starts three servers like the lab's. All share this machine.
func (l *lab) ensemble(ctx context.Context) (*lab, error) {
	e, err := l.provider.StartEnsemble(ctx, 3, serverConfig())
	if err != nil {
		return nil, err
	}
	return &lab{servers: e.Addrs(), kind: l.kind, peers: l.peers, close: func() error { return e.Remove(context.Background()) }}, nil
}

// serverVersion asks the server with the four-letter word srvr.
func serverVersion(ctx context.Context, addr string) (string, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(nc, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(nc)
	if err != nil {
		return "", err
	}
	_, version, found := bytes.Cut(answer, []byte("version: "))
	if !found {
		return "of an unknown version", nil
	}
	return string(version[:bytes.IndexAny(append(version, '-'), "-, \n")]), nil
}

// machine returns the lines of the report that describe the machine and the software.
func machine(l *lab) [][2]string {
	lines := [][2]string{
		{"CPUs", fmt.Sprintf("%d, shared by the clients and the server", runtime.GOMAXPROCS(0))},
		{"System", runtime.GOOS + "/" + runtime.GOARCH},
		{"Go", strings.TrimPrefix(runtime.Version(), "go")},
		{"ZooKeeper", l.kind},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			switch m.Path {
			case "github.com/go-zookeeper/zk", "github.com/HdrHistogram/hdrhistogram-go":
				lines = append(lines, [2]string{strings.TrimPrefix(m.Path, "github.com/"), m.Version})
			}
		}
	}
	for _, p := range l.peers {
		lines = append(lines, [2]string{p.name, p.about})
	}
	return lines
}
