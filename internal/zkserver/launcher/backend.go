package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// A backend runs servers.
type backend interface {
	fmt.Stringer
	// traces says how to recognize what create makes.
	traces() *zkserver.Traces
	// fetch gets a version of ZooKeeper, see zkserver.Provider.Fetch.
	fetch(ctx context.Context, version string) error
	// create makes servers without starting them.
	create(ctx context.Context, spec *zkserver.Spec) ([]server, error)
	// close removes everything that create has made.
	close(ctx context.Context) error
}

// A server is one ZooKeeper server of a backend. Its zkserver.Node makes one call at a
// time, except for alive and log.
type server interface {
	addr() string
	secureAddr() string // "" without Spec.Secure
	start(ctx context.Context) error
	kill(ctx context.Context) error // with SIGKILL; waits until the process has exited
	stop(ctx context.Context) error // with SIGTERM; waits until the process has exited
	pause(ctx context.Context) error
	unpause(ctx context.Context) error
	erase(ctx context.Context) error   // deletes the data; only while not running
	save(ctx context.Context) error    // copies the data
	restore(ctx context.Context) error // replaces the data by the copy; only while not running
	cut(ctx context.Context) error
	heal(ctx context.Context) error
	remove(ctx context.Context) error
	write(ctx context.Context, name, text string) error // one of Spec.Files
	alive(ctx context.Context) error                    // nil while the process runs
	dump(ctx context.Context) error                     // has the JVM print what its threads do
	log(ctx context.Context, lines int) string          // the last ones
}

// withDir returns text with the directory of Spec.Files.
func withDir(text, dir string) string { return strings.ReplaceAll(text, zkserver.FilesDir, dir) }

// find finds a backend that works on this machine. If none does, the error says why each one
// failed.
func find(ctx context.Context, logf func(format string, args ...any)) (backend, error) {
	backends := []struct {
		name string
		find func(context.Context, func(string, ...any)) (backend, error)
	}{
		{"docker", findDocker},
		{"java", findJava},
	}
	only := os.Getenv("ZK_HARNESS")
	failed := []error{errors.New("ZK_SERVERS: not set")}
	for _, w := range backends {
		if only != "" && only != w.name {
			failed = append(failed, fmt.Errorf("%s: excluded by ZK_HARNESS=%s", w.name, only))
			continue
		}
		found, err := w.find(ctx, logf)
		if err == nil {
			return found, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", w.name, err))
		if ctx.Err() != nil { // the failure says nothing about this backend or the next
			break
		}
		logf("zkserver: cannot use %s: %v", w.name, err)
	}
	return nil, fmt.Errorf("no way to run ZooKeeper:\n%w", errors.Join(failed...))
}

// wantedVersion returns the version of a server whose Spec names none. strict
// means that the user has asked for it, and no other will do.
func wantedVersion() (version string, strict bool) {
	if version = os.Getenv("ZK_VERSION"); version != "" {
		return version, true
	}
	return zkserver.Versions[0], false
}
