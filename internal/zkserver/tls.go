package zkserver

import "maps"

// TLS is what a server needs for a secure port. The texts are PEM.
type TLS struct {
	// Keystore is the server's private key (PKCS 8), and its certificates.
	Keystore []byte
	// Truststore is the authorities of the clients' certificates. If it is empty,
	// clients need no certificate. Otherwise the server requires one.
	Truststore []byte
}

// addTo adds a secure port to servers, except for its number.
func (t *TLS) addTo(s *Spec) {
	const keystore, truststore = "keystore.pem", "truststore.pem"
	s.Secure = true
	files := map[string]string{keystore: string(t.Keystore)}
	s.Lines = append(s.Lines,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", // the other one has no TLS
		"ssl.keyStore.location="+FilesDir+"/"+keystore,
		"ssl.keyStore.type=PEM",
	)
	if len(t.Truststore) == 0 {
		s.Lines = append(s.Lines, "ssl.clientAuth=none")
	} else {
		files[truststore] = string(t.Truststore)
		s.Lines = append(s.Lines,
			"ssl.clientAuth=need",
			"ssl.trustStore.location="+FilesDir+"/"+truststore,
			"ssl.trustStore.type=PEM",
		)
	}
	maps.Copy(files, s.Files)
	s.Files = files
	// Let java find all of Netty. Debian's zookeeper.jar names only some of its jars in the
	// manifest. Where these jars do not exist, java ignores the flag.
	flag := "-Xbootclasspath/a"
	for _, jar := range []string{"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-unix-common"} {
		flag += ":/usr/share/java/netty-" + jar + ".jar"
	}
	s.Flags = append(s.Flags, flag)
}
