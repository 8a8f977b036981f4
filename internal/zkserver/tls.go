package zkserver

// TLS is what a server needs for a secure port. The texts are PEM.
type TLS struct {
	// Keystore is the server's private key (PKCS 8), and its certificates.
	Keystore []byte
	// Truststore is the authorities of the clients' certificates. If it is empty,
	// clients need no certificate. Otherwise the server requires one.
	Truststore []byte
}
