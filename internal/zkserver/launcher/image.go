package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

const (
	officialImage = "zookeeper:"                   // and the version
	debianImage   = "zkrecipes-zookeeper:debian13" // what image.sh builds; it has all versions but zkserver.OnRequest

	// registryTimeout is how long a registry may take until its first response.
	// The engine's own timeout is too long for a machine that reaches none.
	registryTimeout = 5 * time.Second
)

//go:embed image.sh
var imageScript string

// images finds an image for each version of ZooKeeper.
type images struct {
	engine   client.APIClient
	logf     func(string, ...any)
	standard image // for servers that need no certain version

	mu    sync.Mutex
	found map[string]image // by version
}

// An image is one that the engine has.
type image struct {
	name    string
	version string // empty if it is the user's, and only that
}

func (i image) String() string {
	if i.version == "" {
		return "image " + i.name
	}
	return fmt.Sprintf("image %s (ZooKeeper %s)", i.name, i.version)
}

// find returns an image with a version of ZooKeeper. An empty version means the
// standard image. find pulls or builds the image if needed.
func (s *images) find(ctx context.Context, version string) (image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == "" && s.standard.name != "" {
		return s.standard, nil
	}
	if name := os.Getenv("ZK_IMAGE"); name != "" {
		if version != "" {
			return image{}, fmt.Errorf("only ZK_IMAGE=%s is allowed: %w", name, errors.ErrUnsupported)
		}
		wanted, _ := wantedVersion()
		return s.pulled(ctx, image{name: name}, wanted)
	}
	if version == "" {
		version, _ = wantedVersion()
	}
	if found, ok := s.found[version]; ok {
		return found, nil
	}
	found, err := s.get(ctx, version)
	if err != nil {
		return image{}, err
	}
	if s.found == nil {
		s.found = map[string]image{}
	}
	s.found[version] = found
	return found, nil
}

// get pulls or builds an image with a version. If an image has been built here,
// no registry could be reached then, and get does not try again.
func (s *images) get(ctx context.Context, version string) (image, error) {
	if !slices.Contains(zkserver.Versions, version) {
		return image{}, fmt.Errorf("ZooKeeper %s: only %s can be run: %w", version, zkserver.Versions, errors.ErrUnsupported)
	}
	official := image{officialImage + version, version}
	if !hasImage(ctx, s.engine, official.name) && hasImage(ctx, s.engine, debianImage) {
		return s.built(ctx, version)
	}
	return s.pulled(ctx, official, version)
}

// pulled returns an image, which it pulls if needed, or the built one with a version if it
// cannot be pulled.
func (s *images) pulled(ctx context.Context, i image, version string) (image, error) {
	if hasImage(ctx, s.engine, i.name) {
		return i, nil
	}
	pullErr := pull(ctx, s.engine, i.name, s.logf)
	if pullErr == nil {
		return i, nil
	}
	found, err := s.built(ctx, version)
	if err != nil {
		err = errors.Join(fmt.Errorf("pull %s: %w", i.name, pullErr), err)
	}
	return found, err
}

// built returns the image of image.sh, which it builds if needed.
func (s *images) built(ctx context.Context, version string) (image, error) {
	if version == zkserver.OnRequest {
		// The image is made once, from Debian's stable releases.
		return image{}, fmt.Errorf("%s has no ZooKeeper %s: %w", debianImage, version, errors.ErrUnsupported)
	}
	if !hasImage(ctx, s.engine, debianImage) {
		s.logf("zkserver: building %s, about a minute", debianImage)
		if err := build(ctx, s.engine); err != nil {
			return image{}, fmt.Errorf("build %s: %w", debianImage, err)
		}
	}
	return image{debianImage, version}, nil
}

func hasImage(ctx context.Context, engine client.APIClient, name string) bool {
	_, err := engine.ImageInspect(ctx, name)
	return err == nil
}

func pull(ctx context.Context, engine client.APIClient, name string, logf func(string, ...any)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(registryTimeout, func() {
		cancel(fmt.Errorf("no response from the registry for %v", registryTimeout))
	})
	defer silence.Stop()
	progress, err := engine.ImagePull(ctx, name, client.ImagePullOptions{})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	defer progress.Close()
	if silence.Stop() {
		logf("zkserver: pulling %s", name)
	}
	return progress.Wait(ctx)
}

func build(ctx context.Context, engine client.APIClient) error {
	cmd := exec.CommandContext(ctx, "bash", "-c", imageScript, "image.sh")
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+engine.DaemonHost(), "ZK_IMAGE_TAG="+debianImage)
	// Do not kill the script at once: it has a directory to remove. SIGTERM reaches its
	// children, too.
	detach(cmd)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(output.String()))
	}
	return nil
}
