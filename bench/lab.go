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

// lab is the one server that everything is measured on.
type lab struct {
	servers []string
	kind    string // of server, for the report
	close   func() error
}

// newLab finds or starts the server: standalone, and quick rather than durable
// (zkserver.Config: it does not force its log to the disk). That is the harder
// test for a client: with a disk and a quorum behind each write, what the client
// adds is a smaller share.
func newLab(ctx context.Context) (*lab, error) {
	if os.Getenv("ZK_HARNESS") == "zktest" {
		srv, err := zktest.Start(zktest.SessionTimeouts(time.Second, time.Minute))
		if err != nil {
			return nil, err
		}
		return &lab{
			servers: []string{srv.Addr()},
			kind:    "zktest, inside the process: no ZooKeeper, and allocations and times are its too",
			close:   func() error { srv.Close(); return nil },
		}, nil
	}
	provider, err := zkserver.Find(ctx, log.Printf)
	if err != nil {
		return nil, err
	}
	l := &lab{servers: provider.External(), kind: "a server that ran already", close: provider.Close}
	if l.servers == nil {
		node, err := provider.Start(ctx, zkserver.Config{
			TickTime: 2 * time.Second, // the usual one
			JVMFlags: []string{
				"-Xmx1g",
				"-XX:TieredStopAtLevel=4", // compile as by default: it is not a test that has to be up at once
				// A line that is idle while the other side has its turn is not reaped:
				// by default they are looked at once a minute.
				"-Dznode.container.checkIntervalMs=600000",
			},
		})
		if err != nil {
			return nil, errors.Join(err, provider.Close())
		}
		l.servers = []string{node.Addr()}
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
		return "of a version that it does not tell", nil
	}
	return string(version[:bytes.IndexAny(append(version, '-'), "-, \n")]), nil
}

// machine returns the lines of the report that say what was measured on what.
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
	return lines
}
