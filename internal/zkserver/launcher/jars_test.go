package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// zookeeper.jar names the installed zookeeper-jute.jar in its manifest, and a
// manifest's jars come right behind the jar itself.
func TestJarsOfAnotherReleaseComeBeforeTheInstalledOnes(t *testing.T) {
	path := strings.Split(jars{dir: "/other"}.classPath(), string(filepath.ListSeparator))
	require.Equal(t, []string{"/other/zookeeper-jute.jar", "/other/zookeeper.jar"}, path[:2])
}
