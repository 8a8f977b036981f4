package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// dockerBackend runs each server in a container, through testcontainers-go. It
// uses the engine's API for what testcontainers-go lacks: kill, pause, and
// connecting and disconnecting networks.
type dockerBackend struct {
	images   images
	provider *testcontainers.DockerProvider
	engine   client.APIClient
	watcher  *watcher
	labels   map[string]string
	ports    ports
}

func findDocker(ctx context.Context, logf func(string, ...any)) (backend, error) {
	// testcontainers-go cleans up with a container of its own, whose image comes
	// from a registry. The watcher does without.
	if _, set := os.LookupEnv("TESTCONTAINERS_RYUK_DISABLED"); !set {
		if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
			return nil, err
		}
	}
	tclog.SetDefault(tclog.NewNoopLogger())
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithDefaultBridgeNetwork(testcontainers.Bridge))
	if err != nil {
		return nil, fmt.Errorf("no engine: %w", err)
	}
	engine := provider.Client()
	d := &dockerBackend{provider: provider, engine: engine, images: images{engine: engine, logf: logf}}
	if _, err := engine.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, errors.Join(fmt.Errorf("no engine: %w", err), provider.Close())
	}
	if d.images.standard, err = d.images.find(ctx, ""); err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	if d.watcher, err = newWatcher("DOCKER_HOST=" + engine.DaemonHost()); err != nil {
		return nil, errors.Join(err, provider.Close())
	}
	key, value, _ := strings.Cut(d.watcher.run, "=")
	d.labels = map[string]string{key: value}
	return d, nil
}

func (d *dockerBackend) traces() *zkserver.Traces { return d.watcher.traces() }

func (d *dockerBackend) String() string { return "docker " + d.images.standard.String() }

func (d *dockerBackend) fetch(ctx context.Context, version string) error {
	_, err := d.images.find(ctx, version)
	return err
}

func (d *dockerBackend) create(ctx context.Context, spec *zkserver.Spec) ([]server, error) {
	image, err := d.images.find(ctx, spec.Version)
	if err != nil {
		return nil, err
	}
	n := spec.Servers
	picked, err := d.ports.pick(2 * n)
	if err != nil {
		return nil, err
	}
	nodes := make([]*container, n)
	for i := range nodes {
		nodes[i] = &container{
			backend: d, image: image, port: picked[i], number: i + 1,
			lines: spec.Lines, flags: spec.Flags, texts: maps.Clone(spec.Files),
		}
		if spec.Secure {
			nodes[i].secure = picked[n+i]
			nodes[i].lines = slices.Concat(spec.Lines, []string{"secureClientPort=" + securePort})
		}
	}
	if spec.Quorum {
		if err := d.connect(ctx, nodes); err != nil {
			return nil, err
		}
	}
	servers := make([]server, n)
	for i, c := range nodes {
		if err := c.create(ctx); err != nil {
			return nil, err // Provider.Close removes the containers made so far
		}
		servers[i] = c
	}
	return servers, nil
}

// connect makes the private network of an ensemble and gives each node its
// address in it. Clients connect through Docker's default network and a
// published port, so a node can lose its peers and keep its clients. The private
// network is internal, and Docker publishes no ports on internal networks.
func (d *dockerBackend) connect(ctx context.Context, nodes []*container) error {
	id, subnet, err := d.createNetwork(ctx)
	if err != nil {
		return fmt.Errorf("make a network: %w", err)
	}
	shared := &peers{network: id}
	shared.remaining.Store(int32(len(nodes)))
	ip := subnet.Masked().Addr().Next() // of the gateway
	for _, c := range nodes {
		ip = ip.Next()
		c.peers, c.ip = shared, ip
		shared.lines = append(shared.lines, fmt.Sprintf("server.%d=%s:2888:3888;2181", c.number, ip))
	}
	return nil
}

// createNetwork makes a network with a fixed subnet. Only in such a network does
// the engine grant fixed addresses, and a healed node needs its old address.
// To find a free subnet, createNetwork lets the engine choose one for a network
// that it removes again. If another process takes the subnet in between, it
// tries again.
func (d *dockerBackend) createNetwork(ctx context.Context) (string, netip.Prefix, error) {
	options := client.NetworkCreateOptions{Driver: "bridge", Internal: true, Labels: maps.Clone(d.labels)}
	var taken error
	for range 5 {
		trial, err := d.engine.NetworkCreate(ctx, networkName(), options)
		if err != nil {
			return "", netip.Prefix{}, err
		}
		seen, err := d.engine.NetworkInspect(ctx, trial.ID, client.NetworkInspectOptions{})
		_, removeErr := d.engine.NetworkRemove(ctx, trial.ID, client.NetworkRemoveOptions{})
		if err := errors.Join(err, removeErr); err != nil {
			return "", netip.Prefix{}, err
		}
		if len(seen.Network.IPAM.Config) == 0 {
			return "", netip.Prefix{}, errors.New("the engine names no subnet")
		}
		subnet := seen.Network.IPAM.Config[0].Subnet
		fixed := options
		fixed.IPAM = &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet}}}
		created, err := d.engine.NetworkCreate(ctx, networkName(), fixed)
		if err == nil {
			return created.ID, subnet, nil
		}
		taken = err
	}
	return "", netip.Prefix{}, taken
}

// close removes everything that bears the run's label. If that fails, the watcher
// tries again.
func (d *dockerBackend) close(ctx context.Context) error {
	err := d.remove(ctx, client.Filters{}.Add("label", d.watcher.run))
	return errors.Join(err, d.watcher.dismiss(err == nil), d.provider.Close())
}

func (d *dockerBackend) remove(ctx context.Context, filters client.Filters) error {
	containers, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range containers.Items {
		errs = append(errs, d.removeContainer(ctx, c.ID))
	}
	networks, err := d.engine.NetworkList(ctx, client.NetworkListOptions{Filters: filters})
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, n := range networks.Items {
		_, err := d.engine.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		errs = append(errs, ignoreNotFound(err))
	}
	return errors.Join(errs...)
}

func (d *dockerBackend) removeContainer(ctx context.Context, id string) error {
	_, err := d.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return ignoreNotFound(err)
}
