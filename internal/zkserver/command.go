package zkserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// pollInterval is the time between two checks whether a server serves.
const pollInterval = 20 * time.Millisecond

// Command sends one of ZooKeeper's four-letter words, such as "srvr" or
// "mntr", and returns the answer.
func (n *Node) Command(ctx context.Context, word string) (string, error) {
	answer, err := n.command(ctx, word)
	if err != nil {
		return "", fmt.Errorf("zkserver: %s to %s: %w", word, n, err)
	}
	return answer, nil
}

func (n *Node) command(ctx context.Context, word string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", n.Addr())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// Only closing the connection interrupts a read when ctx ends.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return string(answer), err
}

// A status is what a serving server reports about itself.
type status struct {
	mode  string // standalone, leader or follower
	epoch int64  // counts the elections; the upper half of the last zxid
}

// status asks the server once. It fails if the server does not serve.
func (n *Node) status(ctx context.Context) (status, error) {
	// A paused server accepts the connection and stays silent.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := n.Command(ctx, "srvr")
	if err != nil {
		return status{}, err
	}
	var s status
	for line := range strings.Lines(answer) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Mode":
			s.mode = value
		case "Zxid":
			zxid, err := strconv.ParseInt(value, 0, 64)
			if err != nil {
				return status{}, fmt.Errorf("zkserver: srvr to %s: %w", n, err)
			}
			s.epoch = zxid >> 32
		}
	}
	if s.mode == "" {
		return status{}, fmt.Errorf("zkserver: srvr to %s: not serving: %q", n, answer)
	}
	return s, nil
}

// WaitServing waits until the node answers requests. A standalone server does so
// when it has read its data, a member of an ensemble when it has joined a quorum.
// WaitServing fails at once if the process has exited. Without a deadline in ctx
// it waits for 10 minutes.
func (n *Node) WaitServing(ctx context.Context) error {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	for {
		_, err := n.status(ctx)
		if err == nil {
			return nil
		}
		if _, exited := n.call(ctx, Request{Op: OpCheck}); exited != nil && ctx.Err() == nil {
			return fmt.Errorf("zkserver: wait for %s: %w\n%s", n, exited, n.Log(ctx))
		}
		if !sleep(ctx, pollInterval) {
			return fmt.Errorf("zkserver: wait for %s: %w; last error: %w\n%s",
				n, context.Cause(ctx), err, n.Log(context.WithoutCancel(ctx)))
		}
	}
}

// sleep waits for d and returns true, or returns false as soon as ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
