//go:build unix

// Package serve is a page that shows live what happens in locks, queues and elections.
//
// One watcher reads from the servers for all browsers. Each line has a watch on the directory in
// which its places are, which tells by the names alone who comes, holds and goes. A place's
// znode is read once, for who it is. All reads together are bounded by a rate: under load the
// page lags behind.
package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// Options configure Run.
type Options struct {
	Root     string
	Listener net.Listener
	Hosts    []string      // names under which browsers may ask, beside those of the loopback address
	Public   string        // host of the page's address for browsers, if a proxy has another one
	Token    string        // for actions; empty: none are allowed
	Data     bool          // browsers may read what is in items
	Stale    time.Duration // holds that are older are marked
	Refresh  time.Duration // how often new recipes are looked for, at most
	Requests int           // to the servers, a second, at most
	Lines    int           // that are watched, at most
}

// Run serves the page until ctx ends, and waits until all that it has started has ended.
func Run(ctx context.Context, client *zkrecipes.Client, opts Options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h := newHub(client, opts)
	server := &http.Server{
		Handler:           newHandler(h),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      requestTime + writeTime, // of all but the streams of events
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 14,
	}
	var all sync.WaitGroup
	all.Go(func() { h.run(ctx) })
	all.Go(func() {
		<-ctx.Done() // ends the streams of events, too
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if server.Shutdown(late) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(opts.Listener)
	stop()
	all.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
