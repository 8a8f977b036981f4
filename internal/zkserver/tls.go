package zkserver

import "path"

// TLS is what a server needs for a secure port. The texts are PEM.
type TLS struct {
	// Keystore is the server's private key (PKCS 8), and its certificates.
	Keystore []byte
	// Truststore is the authorities of the clients' certificates. If it is empty,
	// clients need no certificate. Otherwise the server requires one.
	Truststore []byte
}

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

// files returns the files that lines names, by their names.
func (t *TLS) files(dir string) map[string][]byte {
	if t == nil {
		return nil
	}
	files := map[string][]byte{path.Join(dir, keystoreName): t.Keystore}
	if len(t.Truststore) > 0 {
		files[path.Join(dir, truststoreName)] = t.Truststore
	}
	return files
}

// lines returns the lines of zoo.cfg for TLS, which only the Netty connections of the
// server support.
func (t *TLS) lines(dir, port string) []string {
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

func secureAddr(t *TLS, port int) string {
	if t == nil {
		return ""
	}
	return loopback(port)
}
