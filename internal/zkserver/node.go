package zkserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// A Node is one ZooKeeper server. Its methods may be called concurrently. Those
// that change the node run one after another.
type Node struct {
	id       int // in server.N= and myid
	launcher *launcher
	server   ServerInfo

	mu      sync.Mutex
	removed bool
}

// Addr returns 127.0.0.1:port. It never changes, even while the node is down.
func (n *Node) Addr() string { return n.server.Addr }

// SecureAddr is like Addr for the port that Config.TLS opens.
func (n *Node) SecureAddr() string { return n.server.SecureAddr }

// String returns a name for messages.
func (n *Node) String() string { return fmt.Sprintf("node %d (%s)", n.id, n.Addr()) }

// Start starts a node that is down. It does not wait until the node serves, which
// a member of an ensemble without a quorum never does.
func (n *Node) Start(ctx context.Context) error { return n.do(ctx, OpStart) }

// Restart starts a node that is down, with the data it had, and waits until it
// serves.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Start(ctx); err != nil {
		return err
	}
	return n.WaitServing(ctx)
}

// Kill ends the process with SIGKILL and waits until the process has exited and
// the port is closed. The clients lose their connections, but their sessions
// live until they expire. Kill does nothing if the node is down.
func (n *Node) Kill(ctx context.Context) error { return n.do(ctx, OpKill) }

// Stop ends the process with SIGTERM, and with SIGKILL after 10 s.
func (n *Node) Stop(ctx context.Context) error { return n.do(ctx, OpStop) }

// Pause suspends the process: connections stay open, and nothing is answered.
func (n *Node) Pause(ctx context.Context) error { return n.do(ctx, OpPause) }

// Unpause resumes a paused process.
func (n *Node) Unpause(ctx context.Context) error { return n.do(ctx, OpUnpause) }

// Wipe kills the node, deletes its data and starts it again. It waits until the
// node serves. A standalone server is then empty; a member of an ensemble has
// the data that its peers have sent.
func (n *Node) Wipe(ctx context.Context) error {
	if err := n.Kill(ctx); err != nil {
		return err
	}
	if err := n.Erase(ctx); err != nil {
		return err
	}
	return n.Restart(ctx)
}

// Erase deletes the data of a node that is down.
func (n *Node) Erase(ctx context.Context) error { return n.do(ctx, OpErase) }

// Save copies the data of the node, for Restore. A later Save replaces the copy. Pause
// the node before, unless it is down: then the copy has each transaction that the node
// has answered.
func (n *Node) Save(ctx context.Context) error { return n.do(ctx, OpSave) }

// Restore replaces the data of a node that is down by what Save has copied.
func (n *Node) Restore(ctx context.Context) error { return n.do(ctx, OpRestore) }

// Write replaces one of Config.Files. A server reads it at its next start, or when it likes.
func (n *Node) Write(ctx context.Context, name, text string) error {
	return n.request(ctx, Request{Op: OpWrite, Name: name, Text: text})
}

// Cut cuts a member of an ensemble off from its peers and leaves its clients
// connected. Packets between the node and its peers are lost, so each side
// notices only by the other's silence (syncLimit, 2 s). Cut stays in effect when
// the node restarts. Without Docker it returns errors.ErrUnsupported.
func (n *Node) Cut(ctx context.Context) error { return n.do(ctx, OpCut) }

// Heal undoes Cut. The node gets its old address back.
func (n *Node) Heal(ctx context.Context) error { return n.do(ctx, OpHeal) }

// Remove kills the node and deletes it with its data. The node cannot be started
// again. Remove does nothing if the node is removed already.
func (n *Node) Remove(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.removed {
		return nil
	}
	if _, err := n.call(ctx, Request{Op: OpRemove}); err != nil {
		return fmt.Errorf("zkserver: remove %s: %w", n, err)
	}
	n.removed = true
	return nil
}

// logLines is how many lines Log returns. A server that cannot start writes an exception with
// its stack, and its clients, which it refuses, make it write more before it exits.
const logLines = 100

// Log returns the last lines of the server's log, which has warnings and errors.
func (n *Node) Log(ctx context.Context) string { return n.log(ctx, logLines) }

func (n *Node) log(ctx context.Context, lines int) string {
	reply, err := n.call(ctx, Request{Op: OpLog, Lines: lines})
	if err != nil {
		return "no log: " + err.Error()
	}
	return reply.Text
}

// Threads returns what the server's threads do, as its JVM prints it to the log within some
// seconds. It is "" if the server does not.
func (n *Node) Threads(ctx context.Context) string {
	const begin, end, lines = "Full thread dump", "JNI global ref", 5000
	if err := n.do(ctx, OpDump); err != nil {
		return err.Error()
	}
	for ok := true; ok; ok = sleep(ctx, pollInterval) {
		log := n.log(ctx, lines)
		if i := strings.LastIndex(log, begin); i >= 0 && strings.Contains(log[i:], end) {
			return log[i:]
		}
	}
	return ""
}

func (n *Node) do(ctx context.Context, op Op) error { return n.request(ctx, Request{Op: op}) }

func (n *Node) request(ctx context.Context, r Request) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := errors.New("the node was removed")
	if !n.removed {
		_, err = n.call(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("zkserver: %s %s: %w", r.Op, n, err)
	}
	return nil
}

// call has the launcher do something with the node's server.
func (n *Node) call(ctx context.Context, r Request) (Reply, error) {
	r.Server = n.server.Number
	return n.launcher.call(ctx, r)
}
