// Package realserver has the code of docs/testing.md that starts a container. It is a
// module of its own, so that programs that import the root of this repository do not need
// testcontainers-go.
package realserver

import (
	"context"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// RealServer starts a ZooKeeper in a container, and returns its address.
func RealServer(t *testing.T, image string) string {
	server, err := testcontainers.Run(t.Context(), image, // such as zookeeper:3.9
		testcontainers.WithExposedPorts("2181/tcp"),
		testcontainers.WithWaitStrategy(wait.ForListeningPort("2181/tcp")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Terminate(context.Background()) })
	addr, err := server.PortEndpoint(t.Context(), "2181/tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
