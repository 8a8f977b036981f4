// Package sessions has the code of docs/sessions.md.
package sessions

import (
	"context"
	"log/slog"
	"time"

	"github.com/zkrecipes/zkrecipes"
)

// run works with a client, and returns when it is closed and has reported that.
func run(ctx context.Context, servers []string, logger *slog.Logger, work func(*zkrecipes.Client)) error {
	reported := make(chan struct{})
	client, err := zkrecipes.Dial(ctx, servers, &zkrecipes.Options{
		Logger: logger,
		Trace: &zkrecipes.Trace{Session: func(s zkrecipes.TraceSession) {
			if s.State == zkrecipes.SessionClosed {
				close(reported)
			}
		}},
	})
	if err != nil {
		return err
	}
	work(client)
	err = client.Close() // or Shutdown
	select {
	case <-reported: // what came before has been reported, too
	case <-time.After(time.Second): // a slow function or Logger
	}
	return err
}
