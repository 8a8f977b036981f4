package zkserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const jarDir = "/usr/share/java" // where Debian keeps them

// javaBackend runs each server as a child process that listens on 127.0.0.1 and
// keeps its data in a temporary directory.
type javaBackend struct {
	java    string
	version string
	watcher *watcher
	ports   ports

	mu        sync.Mutex
	processes []*process
}

func findJava(ctx context.Context, logf func(string, ...any)) (backend, error) {
	java, err := lookForJava()
	if err != nil {
		logf("zkserver: installing java and ZooKeeper's jars")
		if installErr := installJava(ctx); installErr != nil {
			return nil, errors.Join(err, installErr)
		}
		if java, err = lookForJava(); err != nil {
			return nil, err
		}
	}
	j := &javaBackend{java: java, version: "zookeeper.jar"}
	// A link beside the jar bears the version.
	if found, _ := filepath.Glob(filepath.Join(jarDir, "zookeeper-[0-9]*.jar")); len(found) > 0 {
		j.version = filepath.Base(found[0])
	}
	if j.watcher, err = newWatcher(); err != nil {
		return nil, err
	}
	return j, nil
}

func lookForJava() (string, error) {
	for _, jar := range []string{"zookeeper.jar", "slf4j-simple.jar"} {
		if _, err := os.Stat(filepath.Join(jarDir, jar)); err != nil {
			return "", err
		}
	}
	return exec.LookPath("java")
}

// installJava installs Debian's packages. It needs root on Debian.
func installJava(ctx context.Context) error {
	if _, err := os.Stat("/etc/debian_version"); err != nil || os.Geteuid() != 0 {
		return errors.New("install libzookeeper-java: not root on Debian")
	}
	// Another test package may be installing them: wait for the lock.
	const script = `
export DEBIAN_FRONTEND=noninteractive
wait="-o DPkg::Lock::Timeout=300"
apt-get $wait -qq update
apt-get $wait -qq install -y --no-install-recommends default-jre-headless libzookeeper-java`
	if output, err := exec.CommandContext(ctx, "sh", "-c", script).CombinedOutput(); err != nil {
		return fmt.Errorf("install libzookeeper-java: %w\n%s", err, output)
	}
	return nil
}

func (j *javaBackend) String() string { return "java with " + j.version }

func (j *javaBackend) create(ctx context.Context, n int, cfg Config) ([]server, error) {
	lines, err := cfg.lines()
	if err != nil {
		return nil, err
	}
	const portsPerServer = 3 // for clients, for followers, for elections
	picked, err := j.ports.pick(n * portsPerServer)
	if err != nil {
		return nil, err
	}
	var members []string
	for i := range n {
		p := picked[i*portsPerServer:]
		members = append(members, fmt.Sprintf("server.%d=127.0.0.1:%d:%d;127.0.0.1:%d", i+1, p[1], p[2], p[0]))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var servers []server
	for i := range n {
		port := picked[i*portsPerServer]
		listen := members
		if n == 1 {
			listen = []string{"clientPortAddress=127.0.0.1", fmt.Sprintf("clientPort=%d", port)}
		}
		p, err := j.newProcess(i+1, port, slices.Concat(lines, listen), cfg.jvmFlags())
		if err != nil {
			return nil, err
		}
		j.processes = append(j.processes, p)
		servers = append(servers, p)
	}
	return servers, nil
}

// newProcess makes the directory and the files of a server.
func (j *javaBackend) newProcess(id, port int, lines, jvmFlags []string) (*process, error) {
	dir, err := os.MkdirTemp(j.watcher.dir, "server-")
	if err != nil {
		return nil, err
	}
	p := &process{
		port: port,
		id:   id,
		dir:  dir,
		args: slices.Concat([]string{j.java}, jvmFlags, []string{
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			// zookeeper.jar names the other jars in its manifest.
			"-cp", filepath.Join(jarDir, "zookeeper.jar") + ":" + filepath.Join(jarDir, "slf4j-simple.jar"),
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(dir, "zoo.cfg"),
		}),
		config: strings.Join(append([]string{"dataDir=" + filepath.Join(dir, "data")}, lines...), "\n"),
	}
	return p, p.create()
}

func (j *javaBackend) close(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, p := range j.processes {
		errs = append(errs, p.remove(ctx))
	}
	err := errors.Join(errs...)
	return errors.Join(err, j.watcher.dismiss(err == nil))
}
