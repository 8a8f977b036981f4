package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// JAAS is what a server of OwnJavaNode reads at each start, so a test can switch SASL on and off.
type JAAS struct {
	t    testing.TB
	path string // of the flags
	on   []string
}

// The flags by which a server requires SASL, in two ways.
var (
	RequireSASL = []string{"-Dzookeeper.sessionRequireClientSASLAuth=true"}
	EnforceSASL = []string{"-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=sasl"}
)

// NewJAAS returns a JAAS with that section Server, switched off. Flags are further ones of a server
// with SASL.
func NewJAAS(t testing.TB, server string, flags ...string) *JAAS {
	t.Helper()
	dir := t.TempDir()
	login := filepath.Join(dir, "jaas.conf")
	require.NoError(t, os.WriteFile(login, []byte("Server {\n"+server+"\n};\n"), 0o600))
	j := &JAAS{t: t, path: filepath.Join(dir, "flags"), on: append([]string{
		"-Djava.security.auth.login.config=" + login,
		"-Dzookeeper.authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}, flags...)}
	j.Off()
	return j
}

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

// JVMFlags returns the flags for zkserver.Config.
func (j *JAAS) JVMFlags() []string { return []string{"@" + j.path} }

// Off switches SASL off, for the next start.
func (j *JAAS) Off() { j.write(nil) }

// On switches SASL on, for the next start, with these further flags.
func (j *JAAS) On(flags []string) { j.write(append(j.on[:len(j.on):len(j.on)], flags...)) }

func (j *JAAS) write(flags []string) {
	j.t.Helper()
	require.NoError(j.t, os.WriteFile(j.path, []byte(strings.Join(flags, "\n")+"\n"), 0o600))
}
