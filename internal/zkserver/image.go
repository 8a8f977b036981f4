package zkserver

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

const (
	officialImage = "zookeeper:3.9"
	debianImage   = "zkrecipes-zookeeper:debian" // what image.sh builds

	// registryTimeout is how long a registry may take until its first response.
	// The engine's own timeout is too long for a machine that reaches none.
	registryTimeout = 5 * time.Second
)

//go:embed image.sh
var imageScript string

// findImage returns the name of an image that the engine has. It pulls the
// image ZK_IMAGE if needed, or builds one if that fails.
func findImage(ctx context.Context, engine client.APIClient, logf func(string, ...any)) (string, error) {
	name := os.Getenv("ZK_IMAGE")
	if name == "" {
		name = officialImage
	}
	if hasImage(ctx, engine, name) {
		return name, nil
	}
	var pullErr error
	if name != debianImage {
		if pullErr = pull(ctx, engine, name, logf); pullErr == nil {
			return name, nil
		}
		pullErr = fmt.Errorf("pull %s: %w", name, pullErr)
	}
	if hasImage(ctx, engine, debianImage) {
		return debianImage, nil
	}
	logf("zkserver: building %s, about a minute", debianImage)
	if err := build(ctx, engine); err != nil {
		return "", errors.Join(pullErr, fmt.Errorf("build %s: %w", debianImage, err))
	}
	return debianImage, nil
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
	// Do not kill the script at once: it has a directory to remove.
	detach(cmd)
	cmd.Cancel = func() error { return terminate(cmd) }
	cmd.WaitDelay = 10 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(output.String()))
	}
	return nil
}
