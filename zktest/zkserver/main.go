// Zkserver runs a zktest server in a process of its own, for tests that are not
// written in Go and for trying things out:
//
//	go run github.com/zkrecipes/zkrecipes/zktest/zkserver@latest -listen 127.0.0.1:2181
//
// It prints "listening on 127.0.0.1:2181" once clients can connect, and runs until it
// is interrupted. With port 0 it chooses a free port. A hangup signal (SIGHUP)
// restarts the server: connections break, and data and sessions stay.
//
// It is a test double, see package zktest: its data is gone when it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("zkserver: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	restart := make(chan os.Signal, 1)
	signal.Notify(restart, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], restart, os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal(err)
	}
}

// run runs a server until ctx ends, and restarts it at each signal.
func run(ctx context.Context, args []string, restart <-chan os.Signal, out io.Writer) error {
	options, err := parse(args)
	if err != nil {
		return err
	}
	srv, err := zktest.Start(options...)
	if err != nil {
		return err
	}
	defer srv.Close()
	for {
		fmt.Fprintf(out, "listening on %s\n", srv.Addr())
		select {
		case <-ctx.Done():
			return nil
		case <-restart:
			srv.Stop()
			if err := srv.Restart(); err != nil {
				return err
			}
		}
	}
}

func parse(args []string) ([]zktest.Option, error) {
	flags := flag.NewFlagSet("zkserver", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:2181", "`host:port` to listen on")
	version := flags.String("version", zktest.ZooKeeper39.String(), "`version` of ZooKeeper to emulate: 3.8 or 3.9")
	tick := flags.Duration("tick", 50*time.Millisecond, "granularity of session expiry")
	shortest := flags.Duration("min-session-timeout", 0, "shortest session timeout (default 2 ticks)")
	longest := flags.Duration("max-session-timeout", 0, "longest session timeout (default 20 ticks or 40s)")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument: %s", flags.Arg(0))
	}
	options := []zktest.Option{
		zktest.Listen(*listen), zktest.TickTime(*tick), zktest.SessionTimeouts(*shortest, *longest),
	}
	for _, v := range []zktest.Version{zktest.ZooKeeper38, zktest.ZooKeeper39} {
		if v.String() == *version {
			return append(options, zktest.Emulate(v)), nil
		}
	}
	return nil, fmt.Errorf("unknown version: %s", *version)
}
