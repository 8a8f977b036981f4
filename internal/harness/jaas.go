package harness

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/zkserver"
)

// JAAS has a server's settings for SASL, which can be switched off.
type JAAS struct {
	// Server is the section Server of the login configuration.
	Server string
	// Flags are further ones of the JVM.
	Flags []string
}

// The flags by which a server requires SASL, in two ways.
var (
	RequireSASL = []string{"-Dzookeeper.sessionRequireClientSASLAuth=true"}
	EnforceSASL = []string{"-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=sasl"}
)

const (
	loginFile = "jaas.conf"
	flagsFile = "flags" // which java reads when it starts
)

// DigestUsers returns a section Server for DIGEST-MD5 with these passwords, by user.
func DigestUsers(passwords map[string]string) string {
	var b strings.Builder
	b.WriteString("  org.apache.zookeeper.server.auth.DigestLoginModule required")
	for user, password := range passwords {
		fmt.Fprintf(&b, "\n  \"user_%s\"=\"%s\"", user, password)
	}
	b.WriteString(";")
	return b.String()
}

// Config returns cfg for a server with SASL.
func (j JAAS) Config(cfg zkserver.Config) zkserver.Config {
	cfg.Files = map[string]string{loginFile: "Server {\n" + j.Server + "\n};\n", flagsFile: j.on()}
	cfg.JVMFlags = append(cfg.JVMFlags[:len(cfg.JVMFlags):len(cfg.JVMFlags)], "@"+zkserver.FilesDir+"/"+flagsFile)
	return cfg
}

// on returns the flags of a server with SASL.
func (j JAAS) on(more ...string) string {
	return strings.Join(append([]string{
		"-Djava.security.auth.login.config=" + zkserver.FilesDir + "/" + loginFile,
		"-Dzookeeper.authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}, append(j.Flags[:len(j.Flags):len(j.Flags)], more...)...), "\n")
}

// SwitchOn switches SASL on, with these further flags, for the node's next start.
func (j JAAS) SwitchOn(t testing.TB, node *zkserver.Node, more ...string) {
	t.Helper()
	require.NoError(t, node.Write(t.Context(), flagsFile, j.on(more...)))
}

// SwitchOff switches SASL off, for the node's next start.
func (j JAAS) SwitchOff(t testing.TB, node *zkserver.Node) {
	t.Helper()
	require.NoError(t, node.Write(t.Context(), flagsFile, ""))
}
