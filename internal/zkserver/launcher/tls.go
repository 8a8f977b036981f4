package main

import (
	"path"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

const (
	securePort = "2182" // in a container

	keystoreName   = "keystore.pem"
	truststoreName = "truststore.pem"
)

// nettyFlag lets java find all of Netty. Debian's zookeeper.jar names only some of its
// jars in the manifest. Where these jars do not exist, java ignores the flag.
func nettyFlag() string {
	flag := "-Xbootclasspath/a"
	for _, jar := range []string{"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-unix-common"} {
		flag += ":" + path.Join(jarDir, "netty-"+jar+".jar")
	}
	return flag
}

// tlsFiles returns the files that tlsLines names, by their names.
func tlsFiles(t *zkserver.TLS, dir string) map[string][]byte {
	if t == nil {
		return nil
	}
	files := map[string][]byte{path.Join(dir, keystoreName): t.Keystore}
	if len(t.Truststore) > 0 {
		files[path.Join(dir, truststoreName)] = t.Truststore
	}
	return files
}

// tlsLines returns the lines of zoo.cfg for TLS, which only the Netty connections of the
// server support.
func tlsLines(t *zkserver.TLS, dir, port string) []string {
	if t == nil {
		return nil
	}
	lines := []string{
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPort=" + port,
		"ssl.keyStore.location=" + path.Join(dir, keystoreName),
		"ssl.keyStore.type=PEM",
	}
	if len(t.Truststore) == 0 {
		return append(lines, "ssl.clientAuth=none")
	}
	return append(lines,
		"ssl.clientAuth=need",
		"ssl.trustStore.location="+path.Join(dir, truststoreName),
		"ssl.trustStore.type=PEM",
	)
}

func secureAddr(t *zkserver.TLS, port int) string {
	if t == nil {
		return ""
	}
	return loopback(port)
}
