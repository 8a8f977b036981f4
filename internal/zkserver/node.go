package zkserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A Node is one ZooKeeper server. Its methods may be called concurrently;
// those that change it happen one after another.
type Node struct {
	id     int // its number in server.N= and myid
	server server

	mu      sync.Mutex
	removed bool
}

// Addr returns 127.0.0.1:port, the same for the node's whole life, also while
// it is down.
func (n *Node) Addr() string { return n.server.addr() }

// String returns a name for messages.
func (n *Node) String() string { return fmt.Sprintf("node %d (%s)", n.id, n.Addr()) }

// Start starts a node that is down and returns without waiting until it
// serves: a member of an ensemble that has no quorum would never do so.
func (n *Node) Start(ctx context.Context) error { return n.do(ctx, "start", n.server.start) }

// Restart starts a node that is down, with the data it had, and returns when
// it serves.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Start(ctx); err != nil {
		return err
	}
	return n.WaitServing(ctx)
}

// Kill ends the process with SIGKILL. When it returns the process is gone and
// the port closed. Clients' connections break, their sessions live on until
// they time out. A node that is down already is left as it is.
func (n *Node) Kill(ctx context.Context) error { return n.do(ctx, "kill", n.server.kill) }

// Stop ends the process with SIGTERM, and with SIGKILL after 10 s.
func (n *Node) Stop(ctx context.Context) error { return n.do(ctx, "stop", n.server.stop) }

// Pause freezes the process: connections stay open and nothing is answered.
func (n *Node) Pause(ctx context.Context) error { return n.do(ctx, "pause", n.server.pause) }

// Unpause lets a paused process go on.
func (n *Node) Unpause(ctx context.Context) error { return n.do(ctx, "unpause", n.server.unpause) }

// Wipe kills the node, throws its data away and starts it again. It returns
// when the node serves: empty if it is standalone, else with what its peers
// have sent it.
func (n *Node) Wipe(ctx context.Context) error {
	if err := n.Kill(ctx); err != nil {
		return err
	}
	if err := n.do(ctx, "wipe", n.server.wipe); err != nil {
		return err
	}
	return n.Restart(ctx)
}

// Cut cuts a member of an ensemble off from its peers and leaves its clients
// connected: packets between it and the others vanish, so each side learns of
// it by silence only (syncLimit, 2 s). It outlasts a restart of the node.
// Without Docker it returns errors.ErrUnsupported.
func (n *Node) Cut(ctx context.Context) error { return n.do(ctx, "cut", n.server.cut) }

// Heal undoes Cut. The node has its old address again.
func (n *Node) Heal(ctx context.Context) error { return n.do(ctx, "heal", n.server.heal) }

// Remove kills the node and deletes it, with its data. It can not be started
// again. Removing a node twice does nothing.
func (n *Node) Remove(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.removed {
		return nil
	}
	if err := n.server.remove(ctx); err != nil {
		return fmt.Errorf("zkserver: remove %s: %w", n, err)
	}
	n.removed = true
	return nil
}

// Log returns the last lines that the server wrote: warnings and errors.
func (n *Node) Log(ctx context.Context) string { return n.server.log(ctx) }

func (n *Node) do(ctx context.Context, what string, f func(context.Context) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := errors.New("it has been removed")
	if !n.removed {
		err = f(ctx)
	}
	if err != nil {
		return fmt.Errorf("zkserver: %s %s: %w", what, n, err)
	}
	return nil
}
