package zkserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// container is a server in a Docker container. Its data is in the container:
// it outlasts a kill, and wipe makes the container anew.
type container struct {
	way    *dockerWay
	port   int // on 127.0.0.1
	number int // in the ensemble, from 1
	lines  []string
	flags  []string

	// Of an ensemble only.
	peers *peers
	ip    netip.Addr
	isCut bool

	mu   sync.Mutex
	made testcontainers.Container // another one after wipe
}

// peers is what the members of an ensemble share.
type peers struct {
	network string
	lines   []string     // server.N=...
	left    atomic.Int32 // members that have not been removed
}

func (c *container) addr() string { return loopback(c.port) }

// create makes the container. The port on the host is stated, since Docker
// would choose another one each time the container is started.
func (c *container) create(ctx context.Context) error {
	var members string
	if c.peers != nil {
		members = strings.Join(c.peers.lines, " ")
	}
	made, err := c.way.provider.CreateContainer(ctx, testcontainers.ContainerRequest{
		Image: c.way.image,
		Env: map[string]string{
			"ZOO_MY_ID":     strconv.Itoa(c.number),
			"ZOO_SERVERS":   members,
			"ZOO_CFG_EXTRA": strings.Join(c.lines, " "), // repeats the image's own lines, and the last one counts
			"JVMFLAGS":      strings.Join(c.flags, " "),
		},
		Labels:       maps.Clone(c.way.labels),
		ExposedPorts: []string{"2181/tcp"},
		HostConfigModifier: func(host *dockercontainer.HostConfig) {
			host.PortBindings = network.PortMap{
				network.MustParsePort("2181/tcp"): {{
					HostIP:   netip.AddrFrom4([4]byte{127, 0, 0, 1}),
					HostPort: strconv.Itoa(c.port),
				}},
			}
		},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.made = made
	c.mu.Unlock()
	if c.peers == nil || c.isCut {
		return nil
	}
	return c.join(ctx)
}

func (c *container) join(ctx context.Context) error {
	_, err := c.way.engine.NetworkConnect(ctx, c.peers.network, client.NetworkConnectOptions{
		Container: c.id(),
		EndpointConfig: &network.EndpointSettings{
			IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: c.ip},
		},
	})
	return err
}

func (c *container) id() string { return c.container().GetContainerID() }

func (c *container) container() testcontainers.Container {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

func (c *container) start(ctx context.Context) error { return c.container().Start(ctx) }

func (c *container) kill(ctx context.Context) error {
	if c.alive(ctx) != nil {
		return nil
	}
	// Asked for before the kill: a wait for the next exit would miss it.
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	exit := c.way.engine.ContainerWait(waitCtx, c.id(), client.ContainerWaitOptions{
		Condition: dockercontainer.WaitConditionNotRunning,
	})
	_, err := c.way.engine.ContainerKill(ctx, c.id(), client.ContainerKillOptions{Signal: "KILL"})
	if err != nil {
		return err
	}
	select {
	case <-exit.Result:
		return nil
	case err := <-exit.Error:
		return err
	}
}

func (c *container) stop(ctx context.Context) error {
	_, err := c.way.engine.ContainerStop(ctx, c.id(), client.ContainerStopOptions{})
	return err
}

func (c *container) pause(ctx context.Context) error {
	_, err := c.way.engine.ContainerPause(ctx, c.id(), client.ContainerPauseOptions{})
	return err
}

func (c *container) unpause(ctx context.Context) error {
	_, err := c.way.engine.ContainerUnpause(ctx, c.id(), client.ContainerUnpauseOptions{})
	return err
}

func (c *container) wipe(ctx context.Context) error {
	if err := c.way.removeContainer(ctx, c.id()); err != nil {
		return err
	}
	return c.create(ctx)
}

func (c *container) cut(ctx context.Context) error {
	if c.peers == nil {
		return errors.New("a standalone server has no peers")
	}
	if c.isCut {
		return nil
	}
	_, err := c.way.engine.NetworkDisconnect(ctx, c.peers.network, client.NetworkDisconnectOptions{
		Container: c.id(),
	})
	c.isCut = err == nil
	return err
}

func (c *container) heal(ctx context.Context) error {
	if !c.isCut {
		return nil
	}
	err := c.join(ctx)
	c.isCut = err != nil
	return err
}

// remove takes the network along with the last member: an engine has no more
// than some thirty to give.
func (c *container) remove(ctx context.Context) error {
	err := c.way.removeContainer(ctx, c.id())
	if err != nil || c.peers == nil || c.peers.left.Add(-1) > 0 {
		return err
	}
	_, err = c.way.engine.NetworkRemove(ctx, c.peers.network, client.NetworkRemoveOptions{})
	return ignoreNotFound(err)
}

func (c *container) alive(ctx context.Context) error {
	seen, err := c.way.engine.ContainerInspect(ctx, c.id(), client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	if state := seen.Container.State; !state.Running {
		return fmt.Errorf("the container has ended: %s, exit code %d %s", state.Status, state.ExitCode, state.Error)
	}
	return nil
}

func (c *container) log(ctx context.Context) string {
	logs, err := c.way.engine.ContainerLogs(ctx, c.id(), client.ContainerLogsOptions{
		ShowStdout: true, ShowStderr: true, Tail: "30",
	})
	if err != nil {
		return "no log: " + err.Error()
	}
	defer logs.Close()
	var text strings.Builder
	if _, err := stdcopy.StdCopy(&text, &text, logs); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintf(&text, "the log breaks off: %v\n", err)
	}
	return text.String()
}

func networkName() string { return "zkrecipes-" + strings.ToLower(rand.Text()) }

// ignoreNotFound: gone is what remove wants.
func ignoreNotFound(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
