package main

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

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// javaBackend runs each server as a child process that listens on 127.0.0.1 and
// keeps its data in a temporary directory.
type javaBackend struct {
	java     string
	standard jars // for servers that need no certain version
	watcher  *watcher
	ports    ports

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
	j := &javaBackend{java: java}
	version, strict := wantedVersion()
	if j.standard, err = findJars(ctx, version); err != nil {
		if strict {
			return nil, err
		}
		j.standard = installedJars()
		logf("zkserver: no ZooKeeper %s, using %s: %v", version, j.standard, err)
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

func (j *javaBackend) traces() *zkserver.Traces { return j.watcher.traces() }

func (j *javaBackend) String() string { return "java with " + j.standard.String() }

func (j *javaBackend) fetch(ctx context.Context, version string) error {
	_, err := findJars(ctx, version)
	return err
}

func (j *javaBackend) create(ctx context.Context, spec *zkserver.Spec) ([]server, error) {
	n, jars := spec.Servers, j.standard
	if spec.Version != "" {
		var err error
		if jars, err = findJars(ctx, spec.Version); err != nil {
			return nil, err
		}
	}
	const portsPerServer = 4 // for clients, for followers, for elections, for clients with TLS
	picked, err := j.ports.pick(n * portsPerServer)
	if err != nil {
		return nil, err
	}
	flags := slices.Concat(spec.Flags, []string{"-cp", jars.classPath()})
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
		if !spec.Quorum {
			listen = []string{"clientPortAddress=127.0.0.1", fmt.Sprintf("clientPort=%d", port)}
		}
		secure := 0
		if spec.Secure {
			secure = picked[i*portsPerServer+3]
			listen = append(listen[:len(listen):len(listen)], "secureClientPortAddress=127.0.0.1", fmt.Sprintf("secureClientPort=%d", secure))
		}
		p, err := j.newProcess(i+1, port, secure, slices.Concat(spec.Lines, listen), flags)
		if err != nil {
			return nil, err
		}
		for name, text := range spec.Files {
			if err := p.write(ctx, name, text); err != nil {
				return nil, err
			}
		}
		j.processes = append(j.processes, p)
		servers = append(servers, p)
	}
	return servers, nil
}

// newProcess makes the directory and the files of a server.
func (j *javaBackend) newProcess(id, port, secure int, lines, flags []string) (*process, error) {
	dir, err := os.MkdirTemp(j.watcher.dir, "server-")
	if err != nil {
		return nil, err
	}
	flags = slices.Clone(flags)
	for i := range flags {
		flags[i] = withDir(flags[i], dir)
	}
	p := &process{
		port:   port,
		secure: secure,
		id:     id,
		dir:    dir,
		args: slices.Concat([]string{j.java}, flags, []string{
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(dir, "zoo.cfg"),
		}),
		config: "dataDir=" + filepath.Join(dir, "data") + "\n" + withDir(strings.Join(lines, "\n"), dir),
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
