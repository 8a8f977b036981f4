package zkserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// An Ensemble is a set of servers that replicate each other.
type Ensemble struct {
	Nodes []*Node
}

// Addrs returns the addresses of all nodes.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.Nodes))
	for i, n := range e.Nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// WaitServing waits until every node serves.
func (e *Ensemble) WaitServing(ctx context.Context) error {
	return e.each(func(n *Node) error { return n.WaitServing(ctx) })
}

// Leader waits until one of the nodes leads a serving majority, and returns it.
// A leader that was just cut off or paused still counts as the leader until the
// others notice. To wait for its successor, pass it in except.
func (e *Ensemble) Leader(ctx context.Context, except ...*Node) (*Node, error) {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	for {
		leader, err := e.leader(ctx, except)
		if err == nil {
			return leader, nil
		}
		if !sleep(ctx, pollInterval) {
			return nil, fmt.Errorf("zkserver: leader: %w; last error: %w", context.Cause(ctx), err)
		}
	}
}

func (e *Ensemble) leader(ctx context.Context, except []*Node) (*Node, error) {
	var (
		mu      sync.Mutex
		leader  *Node
		epoch   int64
		serving int
	)
	err := e.each(func(n *Node) error {
		if slices.Contains(except, n) {
			return nil
		}
		s, err := n.status(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		serving++
		// For a moment two nodes may claim to lead. The later election wins.
		leads := s.mode == "leader" || s.mode == "standalone"
		if leads && (leader == nil || s.epoch > epoch) {
			leader, epoch = n, s.epoch
		}
		return nil
	})
	if leader == nil || serving <= len(e.Nodes)/2 {
		return nil, errors.Join(fmt.Errorf("%d of %d serve, without a leader", serving, len(e.Nodes)), err)
	}
	return leader, nil
}

// Remove removes every node, and the network between them.
func (e *Ensemble) Remove(ctx context.Context) error {
	return e.each(func(n *Node) error { return n.Remove(ctx) })
}

// each calls f for all nodes concurrently and joins the errors.
func (e *Ensemble) each(f func(*Node) error) error {
	errs := make([]error, len(e.Nodes))
	var wg sync.WaitGroup
	for i, n := range e.Nodes {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
