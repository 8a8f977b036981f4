package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
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

const securePort = "2182" // in a container

// container is a server in a Docker container. Its data is in the container, so
// it survives a kill. To erase it, the container is replaced.
type container struct {
	backend *dockerBackend
	image   image
	port    int // on 127.0.0.1
	secure  int // port on 127.0.0.1; 0: none
	number  int // in the ensemble, from 1
	lines   []string
	flags   []string
	texts   map[string]string // Spec.Files, which are in /

	// For a member of an ensemble only.
	peers *peers
	ip    netip.Addr
	isCut bool

	mu      sync.Mutex
	current testcontainers.Container // replaced by erase

	saved map[string][]byte // archives, by the directory that they are of
}

// peers is the state that the members of an ensemble share.
type peers struct {
	network   string
	lines     []string     // server.N=...
	remaining atomic.Int32 // members that are not removed yet
}

func (c *container) addr() string { return loopback(c.port) }

func (c *container) secureAddr() string { return loopback(c.secure) }

// create makes the container. It fixes the port on the host, because Docker would
// choose another one each time the container starts.
func (c *container) create(ctx context.Context) error {
	var members string
	if c.peers != nil {
		members = strings.Join(c.peers.lines, " ")
	}
	current, err := c.backend.provider.CreateContainer(ctx, testcontainers.ContainerRequest{
		Image: c.image.name,
		Env: map[string]string{
			"ZOO_VERSION":   c.image.version, // only the image of image.sh knows it
			"ZOO_MY_ID":     strconv.Itoa(c.number),
			"ZOO_SERVERS":   members,
			"ZOO_CFG_EXTRA": withDir(strings.Join(c.lines, " "), ""), // overrides the image's own lines: the last one wins
			"JVMFLAGS":      withDir(strings.Join(c.flags, " "), ""),
		},
		Labels:             maps.Clone(c.backend.labels),
		ExposedPorts:       slices.Collect(maps.Keys(c.ports())),
		HostConfigModifier: c.publish,
		Files:              c.files(),
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.current = current
	c.mu.Unlock()
	if c.peers == nil || c.isCut {
		return nil
	}
	return c.join(ctx)
}

// ports returns the server's ports, and to which port on 127.0.0.1 each is bound.
func (c *container) ports() map[string]int {
	ports := map[string]int{"2181/tcp": c.port}
	if c.secure != 0 {
		ports[securePort+"/tcp"] = c.secure
	}
	return ports
}

func (c *container) publish(host *dockercontainer.HostConfig) {
	host.PortBindings = network.PortMap{}
	for inside, port := range c.ports() {
		host.PortBindings[network.MustParsePort(inside)] = []network.PortBinding{{
			HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: strconv.Itoa(port),
		}}
	}
}

// files returns the files that the server finds in its container.
func (c *container) files() []testcontainers.ContainerFile {
	var files []testcontainers.ContainerFile
	for name, text := range c.texts {
		files = append(files, testcontainers.ContainerFile{
			Reader: strings.NewReader(withDir(text, "")), ContainerFilePath: "/" + name, FileMode: 0o644,
		})
	}
	return files
}

func (c *container) write(ctx context.Context, name, text string) error {
	if _, ok := c.texts[name]; !ok {
		return fmt.Errorf("%s is not among the server's files", name)
	}
	c.texts[name] = text
	return c.container().CopyToContainer(ctx, []byte(withDir(text, "")), "/"+name, 0o644)
}

func (c *container) join(ctx context.Context) error {
	_, err := c.backend.engine.NetworkConnect(ctx, c.peers.network, client.NetworkConnectOptions{
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
	return c.current
}

func (c *container) start(ctx context.Context) error { return c.container().Start(ctx) }

func (c *container) kill(ctx context.Context) error {
	if c.alive(ctx) != nil {
		return nil
	}
	// Start to wait before the kill, or the wait could miss the exit.
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	exit := c.backend.engine.ContainerWait(waitCtx, c.id(), client.ContainerWaitOptions{
		Condition: dockercontainer.WaitConditionNotRunning,
	})
	if err := c.signal(ctx, "KILL"); err != nil {
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
	_, err := c.backend.engine.ContainerStop(ctx, c.id(), client.ContainerStopOptions{})
	return err
}

// pause sends SIGSTOP to java, which is process 1 of its container. The engine's
// own pause waits until the kernel has frozen every thread, and fails when a
// thread sits in a write to the disk for too long.
func (c *container) pause(ctx context.Context) error { return c.signal(ctx, "STOP") }

func (c *container) unpause(ctx context.Context) error { return c.signal(ctx, "CONT") }

func (c *container) dump(ctx context.Context) error { return c.signal(ctx, "QUIT") }

func (c *container) signal(ctx context.Context, name string) error {
	_, err := c.backend.engine.ContainerKill(ctx, c.id(), client.ContainerKillOptions{Signal: name})
	return err
}

func (c *container) erase(ctx context.Context) error {
	if err := c.backend.removeContainer(ctx, c.id()); err != nil {
		return err
	}
	return c.create(ctx)
}

// dataDirs has the directories of an image that a server may keep data in. Only the
// official image has the second.
var dataDirs = []string{"/data", "/datalog"}

func (c *container) save(ctx context.Context) error {
	saved := map[string][]byte{}
	for _, dir := range dataDirs {
		copied, err := c.backend.engine.CopyFromContainer(ctx, c.id(), client.CopyFromContainerOptions{SourcePath: dir})
		if errdefs.IsNotFound(err) && dir != dataDirs[0] {
			continue
		}
		if err != nil {
			return err
		}
		saved[dir], err = io.ReadAll(copied.Content)
		if err := errors.Join(err, copied.Content.Close()); err != nil {
			return err
		}
	}
	c.saved = saved
	return nil
}

func (c *container) restore(ctx context.Context) error {
	if err := c.erase(ctx); err != nil {
		return err
	}
	for _, archive := range c.saved {
		_, err := c.backend.engine.CopyToContainer(ctx, c.id(), client.CopyToContainerOptions{
			DestinationPath: "/", Content: bytes.NewReader(archive), CopyUIDGID: true,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *container) cut(ctx context.Context) error {
	if c.peers == nil {
		return errors.New("a standalone server has no peers")
	}
	if c.isCut {
		return nil
	}
	_, err := c.backend.engine.NetworkDisconnect(ctx, c.peers.network, client.NetworkDisconnectOptions{
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

// remove also removes the network of the ensemble's last member, because an
// engine can have only some thirty networks.
func (c *container) remove(ctx context.Context) error {
	err := c.backend.removeContainer(ctx, c.id())
	if err != nil || c.peers == nil || c.peers.remaining.Add(-1) > 0 {
		return err
	}
	_, err = c.backend.engine.NetworkRemove(ctx, c.peers.network, client.NetworkRemoveOptions{})
	return ignoreNotFound(err)
}

func (c *container) alive(ctx context.Context) error {
	seen, err := c.backend.engine.ContainerInspect(ctx, c.id(), client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	if state := seen.Container.State; !state.Running {
		return fmt.Errorf("the container exited: %s, exit code %d %s", state.Status, state.ExitCode, state.Error)
	}
	return nil
}

func (c *container) log(ctx context.Context, lines int) string {
	logs, err := c.backend.engine.ContainerLogs(ctx, c.id(), client.ContainerLogsOptions{
		ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(lines),
	})
	if err != nil {
		return "no log: " + err.Error()
	}
	defer logs.Close()
	var text strings.Builder
	if _, err := stdcopy.StdCopy(&text, &text, logs); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintf(&text, "the log is incomplete: %v\n", err)
	}
	return text.String()
}

func networkName() string { return "zkrecipes-" + strings.ToLower(rand.Text()) }

// ignoreNotFound returns nil if err says that there is nothing to remove.
func ignoreNotFound(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
