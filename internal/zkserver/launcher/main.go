// Launcher starts ZooKeeper servers for package zkserver, which starts it. It reads requests
// from its standard input and writes replies to its standard output, see
// [zkserver.Request]. On its standard error it reports what takes long.
//
// It exits when its standard input ends, however the process on the other side does. If
// servers are left then, its watcher removes them (watcher.go).
//
// It is a module of its own, so that programs that import the root of this repository do
// not need testcontainers-go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

func main() {
	// Without this, a write to a reader that has died would kill this process, which may
	// have an image's build to end.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	l := &launcher{running: map[int64]context.CancelFunc{}, replies: json.NewEncoder(os.Stdout)}
	l.serve(os.Stdin)
}

// launcher carries out requests, each on a goroutine of its own.
type launcher struct {
	replying sync.Mutex
	replies  *json.Encoder

	mu      sync.Mutex
	running map[int64]context.CancelFunc // by Request.ID
	backend backend                      // since OpFind has succeeded
	servers []server                     // by ServerInfo.Number, less one
}

// serve carries out requests until there are no more. Then it ends those under way.
func (l *launcher) serve(stdin io.Reader) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	requests := json.NewDecoder(stdin)
	for {
		var r zkserver.Request
		if requests.Decode(&r) != nil {
			return
		}
		if r.Op == zkserver.OpCancel {
			l.end(r.ID)
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		l.mu.Lock()
		l.running[r.ID] = cancel
		l.mu.Unlock()
		all.Go(func() {
			reply := l.answer(ctx, r)
			l.end(r.ID)
			l.replying.Lock()
			defer l.replying.Unlock()
			l.replies.Encode(reply) // if it fails, stdin ends too
		})
	}
}

// end ends the context of a request, if it is under way.
func (l *launcher) end(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cancel := l.running[id]; cancel != nil {
		cancel()
		delete(l.running, id)
	}
}

func (l *launcher) answer(ctx context.Context, r zkserver.Request) zkserver.Reply {
	var reply zkserver.Reply
	if err := l.do(ctx, r, &reply); err != nil {
		reply = zkserver.Reply{Err: err.Error(), Unsupported: errors.Is(err, errors.ErrUnsupported)}
	}
	reply.ID = r.ID
	return reply
}

// do carries out a request and fills in what the reply says if it succeeds.
func (l *launcher) do(ctx context.Context, r zkserver.Request, reply *zkserver.Reply) error {
	if r.Op == zkserver.OpFind {
		return l.find(ctx, reply)
	}
	l.mu.Lock()
	b := l.backend
	l.mu.Unlock()
	if b == nil {
		return fmt.Errorf("%s before %s", r.Op, zkserver.OpFind)
	}
	switch r.Op {
	case zkserver.OpFetch:
		return b.fetch(ctx, r.Version)
	case zkserver.OpCreate:
		return l.create(ctx, b, r.Spec, reply)
	case zkserver.OpClose:
		return b.close(ctx)
	}
	s, err := l.server(r.Server)
	if err != nil {
		return err
	}
	switch r.Op {
	case zkserver.OpLog:
		reply.Text = s.log(ctx, r.Lines)
		return nil
	case zkserver.OpWrite:
		return s.write(ctx, r.Name, r.Text)
	}
	op, ok := serverOps[r.Op]
	if !ok {
		return fmt.Errorf("%s: unknown", r.Op)
	}
	return op(s, ctx)
}

var serverOps = map[zkserver.Op]func(server, context.Context) error{
	zkserver.OpStart:   server.start,
	zkserver.OpKill:    server.kill,
	zkserver.OpStop:    server.stop,
	zkserver.OpPause:   server.pause,
	zkserver.OpUnpause: server.unpause,
	zkserver.OpErase:   server.erase,
	zkserver.OpSave:    server.save,
	zkserver.OpRestore: server.restore,
	zkserver.OpCut:     server.cut,
	zkserver.OpHeal:    server.heal,
	zkserver.OpRemove:  server.remove,
	zkserver.OpCheck:   server.alive,
	zkserver.OpDump:    server.dump,
}

func (l *launcher) find(ctx context.Context, reply *zkserver.Reply) error {
	found, err := find(ctx, func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backend = found
	reply.Text, reply.Traces = found.String(), found.traces()
	return nil
}

func (l *launcher) create(ctx context.Context, b backend, spec *zkserver.Spec, reply *zkserver.Reply) error {
	created, err := b.create(ctx, spec)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range created {
		l.servers = append(l.servers, s)
		reply.Servers = append(reply.Servers, zkserver.ServerInfo{
			Number: len(l.servers), Addr: s.addr(), SecureAddr: s.secureAddr(),
		})
	}
	return nil
}

func (l *launcher) server(number int) (server, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < 1 || number > len(l.servers) {
		return nil, fmt.Errorf("no server %d", number)
	}
	return l.servers[number-1], nil
}
