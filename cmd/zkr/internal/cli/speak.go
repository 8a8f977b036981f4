//go:build unix

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

const (
	silence     = time.Second             // before zkr says for whom it waits
	lossSilence = 2 * time.Second         // before it says that the connection is lost
	lossLook    = 200 * time.Millisecond  // how often it looks
	dialSilence = 1500 * time.Millisecond // before it says why there is no connection
	probeTime   = time.Second             // for that
	lookTime    = 3 * time.Second         // to find out who holds
)

// sayWhoHolds says on a terminal for whom this process waits, after a second. The caller calls
// done when the wait is over.
func (a *app) sayWhoHolds(ctx context.Context, client *zkrecipes.Client, path string) (done func()) {
	if !isTerminal(a.stderr) || a.isJSON() {
		return func() {}
	}
	return beside(ctx, func(ctx context.Context) {
		select {
		case <-time.After(silence):
		case <-ctx.Done():
			return
		}
		if text := a.whoHolds(ctx, client, path); text != "" {
			fmt.Fprintf(a.stderr, "zkr: waiting for %s: %s\n", view.Clean(path), text)
		}
	})
}

// beside calls functions in goroutines of their own. done ends their context, and waits for them.
func beside(ctx context.Context, all ...func(context.Context)) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, f := range all {
		running.Go(func() { f(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// whoHolds says who holds, since when, and how many wait ahead of this process. It is empty if
// that cannot be found out, or nobody does any more.
func (a *app) whoHolds(ctx context.Context, client *zkrecipes.Client, path string) string {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	l, err := view.ReadPath(ctx, client, path)
	if err != nil {
		return ""
	}
	return holdersOf(time.Now(), l, view.Session(client.Status().Session))
}

// holdersOf says who holds a line, and how many wait ahead of a session.
func holdersOf(now time.Time, l view.Line, own view.Session) string {
	if l.Held() == 0 {
		return ""
	}
	h := l.Places[0]
	since := h.Contender.HeldSince
	if since.IsZero() {
		since = h.Since
	}
	text := fmt.Sprintf("held by %s for %s, session %s", cmp.Or(view.Clean(view.Brief(h.Identity)), "?"), age(now, since), h.Session)
	if more := len(l.Holders()) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	waiters := l.Places[l.Held():]
	ahead := slices.IndexFunc(waiters, func(p view.Place) bool { return p.Session == own })
	if ahead < 0 {
		ahead = len(waiters)
	}
	if ahead > 0 {
		text += fmt.Sprintf("; %d ahead in the line", ahead)
	}
	return text
}

// drawsScreen annotates commands that draw the whole screen, and say there what is wrong.
const drawsScreen = "draws the screen"

// sayLoss reports on stderr when the connection is lost, and when the Client has connected again, until
// the caller calls done.
func (a *app) sayLoss(ctx context.Context, client *zkrecipes.Client) (done func()) {
	if a.isJSON() {
		return func() {}
	}
	return beside(ctx, func(ctx context.Context) {
		tick := time.NewTicker(lossLook)
		defer tick.Stop()
		isLost := false
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			switch s := client.Status(); {
			case s.Connected && isLost:
				isLost = false
				fmt.Fprintf(a.stderr, "zkr: connected again, to %s\n", s.Server)
			case !s.Connected && !isLost && time.Since(s.Since) > lossSilence:
				isLost = true
				fmt.Fprintf(a.stderr, "zkr: the connection is lost: %s\n", view.Clean(a.noConnection(ctx, nil)))
			}
		}
	})
}

// noConnection says why there is no connection. err is that of Dial, if that has failed. It asks each
// server by a connection of its own, unless they speak TLS.
func (a *app) noConnection(ctx context.Context, err error) string {
	why := ""
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		why = err.Error()
	}
	if err != nil {
		if _, last, ok := strings.Cut(err.Error(), context.DeadlineExceeded.Error()+" ("); ok {
			why = strings.TrimSuffix(last, ")")
		}
	}
	if a.isTLS {
		return cmp.Or(why, "no server answers")
	}
	serves := "it serves, but there is no session"
	if why != "" {
		serves += ": " + why
	}
	var found []string
	for i, r := range a.ask(ctx, probeTime, "srvr") {
		found = append(found, a.servers[i]+": "+cmp.Or(r.problem(), serves))
	}
	return strings.Join(found, "; ")
}

// reply is what a server says to a command of four letters, which it answers without a session.
type reply struct {
	text string
	err  error
}

// ask sends a command to all servers, which have that time for it.
func (a *app) ask(ctx context.Context, patience time.Duration, command string) []reply {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	replies := make([]reply, len(a.servers))
	var all sync.WaitGroup
	for i, server := range a.servers {
		all.Go(func() { replies[i].text, replies[i].err = ask(ctx, server, command) })
	}
	all.Wait()
	return replies
}

func ask(ctx context.Context, server, command string) (string, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	deadline, _ := ctx.Deadline()
	_ = nc.SetDeadline(deadline)
	_, _ = io.WriteString(nc, command)
	text, err := io.ReadAll(io.LimitReader(nc, 16<<20))
	return string(text), err
}

// problem returns what is wrong with a server that has answered srvr so, or nothing. ZooKeeper's
// NIOServerCnxn and NettyServerCnxnFactory close a connection beyond maxClientCnxns before they read
// from it.
func (r reply) problem() string {
	op := (*net.OpError)(nil)
	switch {
	case errors.As(r.err, &op) && op.Op == "dial":
		return op.Err.Error()
	case strings.Contains(r.text, "not currently serving requests"):
		return "it serves nobody at the moment: it has no quorum, or is starting"
	case strings.Contains(r.text, "Mode: read-only"):
		return "it serves nobody who may write: it has no quorum"
	case r.text != "": // its version, or that srvr is not allowed
		return ""
	case errors.Is(r.err, os.ErrDeadlineExceeded):
		return "it accepts connections, and does not answer"
	}
	return "it closes connections at once: maxClientCnxns from this address, or it speaks TLS (--tls)"
}
