package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

const jarDir = "/usr/share/java" // where Debian keeps them

//go:embed jars.sh
var jarsScript string

// releases has a release of Debian for each version of ZooKeeper.
var releases = map[string]string{"3.9": "trixie", "3.8": "bookworm", zkserver.OnRequest: "sid"}

// jars are the jars of one version of ZooKeeper. The zookeeper.jar names the
// libraries it needs in its manifest. They are in jarDir, whatever the version.
type jars struct {
	dir     string
	version string // as precise as is known; may be empty
}

func (j jars) String() string { return "zookeeper.jar " + j.version }

func (j jars) classPath() string {
	return strings.Join([]string{
		// Before the manifest, which has the one of jarDir. That may be of another
		// version.
		filepath.Join(j.dir, "zookeeper-jute.jar"),
		filepath.Join(j.dir, "zookeeper.jar"),
		filepath.Join(jarDir, "slf4j-simple.jar"),
	}, string(filepath.ListSeparator))
}

// installedJars returns the jars of this machine's release of Debian.
func installedJars() jars {
	j := jars{dir: jarDir}
	// A link beside the jar bears the version.
	if found, _ := filepath.Glob(filepath.Join(jarDir, "zookeeper-[0-9]*.jar")); len(found) > 0 {
		j.version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "zookeeper-"), ".jar")
	}
	return j
}

// findJars returns the jars of a version: the installed ones, or those of another
// release of Debian, which it downloads to the user's cache.
func findJars(ctx context.Context, version string) (jars, error) {
	if found := installedJars(); strings.HasPrefix(found.version+".", version+".") {
		return found, nil
	}
	release, ok := releases[version]
	if !ok {
		return jars{}, fmt.Errorf("ZooKeeper %s: only %s can be run: %w", version, zkserver.Versions, errors.ErrUnsupported)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return jars{}, err
	}
	found := jars{filepath.Join(cache, "zkrecipes", "zookeeper-"+version), version + " of Debian " + release}
	if _, err := os.Stat(found.dir); err == nil {
		return found, nil
	}
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return jars{}, fmt.Errorf("get ZooKeeper %s: %w: %w", version, err, errors.ErrUnsupported)
		}
	}
	return found, downloadJars(ctx, release, version, found.dir)
}

// downloadJars downloads the jars of a release into dir, all or none. It returns an error
// if the release has another version by now.
func downloadJars(ctx context.Context, release, version, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), "part-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(part)
	if output, err := exec.CommandContext(ctx, "bash", "-c", jarsScript, "jars.sh", release, version, part).CombinedOutput(); err != nil {
		return fmt.Errorf("download libzookeeper-java %s of Debian %s: %w\n%s", version, release, err, output)
	}
	err = os.Rename(part, dir)
	if _, there := os.Stat(dir); there == nil {
		return nil // another process may have been quicker
	}
	return err
}
