//go:build unix

package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// newFile writes a file that others cannot read, and returns its name.
func newFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// configure returns an app with these flags, whose configuration file has the text.
func configure(t *testing.T, file string, args ...string) (*app, error) {
	t.Helper()
	a := &app{stderr: &bytes.Buffer{}}
	flags := pflag.NewFlagSet("zkr", pflag.ContinueOnError)
	a.config.addFlags(flags)
	require.NoError(t, flags.Parse(append([]string{"--config", newFile(t, file)}, args...)))
	return a, a.config.load(t.Context())
}

func TestFlagsComeBeforeTheEnvironmentAndThatBeforeTheFile(t *testing.T) {
	file := "# servers\nZKR_SERVERS=file:1/prefix\nexport ZKR_IDENTITY='from file'\n\nZKR_SESSION_TIMEOUT=\"7s\"\n"
	t.Setenv("ZKR_IDENTITY", "from environment")
	t.Setenv("ZKR_SESSION_TIMEOUT", "8s")
	t.Setenv("ZKR_TLS", "")
	a, err := configure(t, file, "--session-timeout", "9s")
	require.NoError(t, err)
	opts, err := a.options(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"file:1"}, a.servers)
	require.Equal(t, "/prefix", opts.Prefix)
	require.Equal(t, "from environment", opts.Identity)
	require.Equal(t, 9*time.Second, opts.SessionTimeout)
	require.Equal(t, 15*time.Second, a.config.connectTimeout, "the default")
	require.Nil(t, opts.TLS, "an empty value is the default, too")
}

func TestAFileThatIsWrongIsRefused(t *testing.T) {
	_, err := configure(t, "digest:user:secret\n")
	require.ErrorContains(t, err, "line 1")
	require.NotContains(t, err.Error(), "secret")
	_, err = configure(t, "ZKR_SERVER=zk1\n")
	require.ErrorContains(t, err, `line 1: unknown name "ZKR_SERVER"`)
	require.Equal(t, exitConfig, exitCode(err))
	_, err = configure(t, "ZKR_SESSION_TIMEOUT=soon\n")
	require.ErrorContains(t, err, `"soon" of ZKR_SESSION_TIMEOUT`)
	require.Equal(t, exitUsage, exitCode(err))
	_, err = configure(t, "", "--config", filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist, "it was named")
}

// There is no flag for a secret, so ps cannot show one. A file with a secret must be private.
// Whoever writes the file chooses the servers, and what proves that they are those.
func TestAFileThatOthersMayWriteIsRefused(t *testing.T) {
	a, err := configure(t, "ZKR_SERVERS=zk1\n")
	require.NoError(t, err)
	for mode, isRefused := range map[os.FileMode]bool{0o664: true, 0o602: true, 0o644: false} {
		require.NoError(t, os.Chmod(a.config.path, mode))
		err := a.config.load(t.Context())
		require.Equal(t, isRefused, err != nil, "%v: %v", mode, err)
		require.True(t, !isRefused || exitCode(err) == exitConfig && strings.Contains(err.Error(), "chmod go-w"), err)
	}
}

// Its owner may write it, whatever its mode is.
func TestAFileOfAnotherUserIsRefused(t *testing.T) {
	a, err := configure(t, "ZKR_SERVERS=zk1\n")
	require.NoError(t, err)
	file, err := os.Open(a.config.path)
	require.NoError(t, err)
	defer file.Close()
	user := os.Geteuid()
	require.NoError(t, checkFile(file, user, false))
	require.Equal(t, user != 0, checkFile(file, user+1, false) != nil, "one of root will do")
	if user != 0 { // and cannot give a file away
		return
	}
	require.NoError(t, os.Chown(a.config.path, 1, -1))
	require.NoError(t, checkFile(file, 1, false))
	err = a.config.load(t.Context())
	require.ErrorContains(t, err, a.config.path+" belongs to user 1,")
	require.Equal(t, exitConfig, exitCode(err))
}

// As the one of bash's <(..).
func TestDescribeReadsAFileThatCanBeReadOnce(t *testing.T) {
	srv := zktest.NewServer(t, zktest.SASL(map[string]string{"alice": "secret"}), zktest.RequireSASL())
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = w.WriteString("secret\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Contains(t, output(t, "describe", "/", "-S", srv.Addr(), "--sasl-user", "alice", "--sasl-password-file", fmt.Sprintf("/dev/fd/%d", r.Fd())), "used by no recipe")
}

func TestSecretsComeFromTheEnvironmentOrAPrivateFile(t *testing.T) {
	for _, line := range []string{"ZKR_AUTH=digest:file:s3cret\n", "ZKR_SASL_PASSWORD=s3cret\n"} {
		a, err := configure(t, line)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(a.config.path, 0o640))
		err = a.config.load(t.Context())
		require.ErrorContains(t, err, "chmod 600")
		require.NotContains(t, err.Error(), "s3cret")
	}
	for _, secret := range []string{"auth", "sasl-password"} {
		require.Nil(t, (&app{}).root().PersistentFlags().Lookup(secret))
	}

	path := newFile(t, "digest:a:b\n\nx509:c\n")
	t.Setenv("ZKR_AUTH", "digest:environment:s3cret")
	a, err := configure(t, "", "--auth-file", path)
	require.NoError(t, err)
	creds, err := a.auth(t.Context())
	require.NoError(t, err)
	require.Equal(t, []zkrecipes.Auth{{Scheme: "digest", Data: []byte("environment:s3cret")}, {Scheme: "digest", Data: []byte("a:b")}, {Scheme: "x509", Data: []byte("c")}}, creds)
	require.NoError(t, os.Chmod(path, 0o604))
	_, err = a.auth(t.Context())
	require.ErrorContains(t, err, "chmod 600")
	t.Setenv("ZKR_AUTH", "s3cret")
	refusesOptions(t)
}

// refusesOptions checks that the configuration is wrong with these flags, and that no error shows a secret.
func refusesOptions(t *testing.T, args ...string) {
	t.Helper()
	a, err := configure(t, "", args...)
	require.NoError(t, err)
	_, err = a.options(t.Context())
	require.Equal(t, exitConfig, exitCode(err), args)
	require.NotContains(t, err.Error(), "s3cret")
}

func TestSASLIsDigestOrKerberos(t *testing.T) {
	password, conf := newFile(t, "s3cret\n"), newFile(t, "[libdefaults]\ndefault_realm = EXAMPLE.COM\n")
	require.NoError(t, os.Chmod(password, 0o640))
	for _, args := range [][]string{
		{"--sasl-user", "alice"}, {"--sasl-user", "alice", "--sasl-password-file", password}, {"--sasl-user", "alice", "--sasl-password-file", "/none"},
		{"--sasl-user", "alice", "--krb5-principal", "alice"}, {"--krb5-principal", "alice", "--krb5-conf", conf, "--krb5-keytab", "/none"},
		{"--krb5-keytab", password, "--krb5-conf", conf}, {"--krb5-principal", "alice", "--krb5-conf", "/none"},
	} {
		refusesOptions(t, args...)
	}
}

func TestTLSIsAllOrNothing(t *testing.T) {
	a, err := configure(t, "ZKR_TLS_SERVER_NAME=zk\n", "--tls")
	require.NoError(t, err)
	cfg, err := a.config.tls()
	require.NoError(t, err)
	require.Equal(t, "zk", cfg.ServerName)
	require.False(t, cfg.InsecureSkipVerify)

	cert, key := harness.PEM(t, harness.NewCA(t).Issue(t, "alice"))
	_, foreignKey := harness.PEM(t, harness.NewCA(t).Issue(t, "alice"))
	certFile, keyFile := newFile(t, string(cert)), newFile(t, string(key))
	for _, args := range [][]string{
		{"--tls-ca", "/none"}, {"--tls-cert", "/none"}, {"--tls-key", "/none"},
		{"--tls-ca", keyFile}, {"--tls-cert", certFile}, {"--tls-cert", certFile, "--tls-key", newFile(t, string(foreignKey))},
		{"--tls-server-name", "zk"}, // it would verify nothing
	} {
		refusesOptions(t, args...)
	}
}

func TestEachCommandHasHelp(t *testing.T) {
	run := func(args ...string) string { return output(t, args...) }
	dir := t.TempDir()
	run("man", dir)
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		if c.IsAvailableCommand() && c.Name() != "completion" {
			page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
			require.NoError(t, err)
			for _, section := range []string{".SH EXIT STATUS\n", ".SH ENVIRONMENT\n", ".SH FILES\n", "ZKR_SESSION_TIMEOUT"} {
				require.Contains(t, string(page), section, c.CommandPath())
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	root := (&app{}).root()
	visit(root)
	require.True(t, slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "lock" }))
	require.NotContains(t, run("help", "who"), "krb5", "what all commands have is a topic of its own")
	require.Contains(t, run("help", "settings"), "ZKR_KRB5_KEYTAB")
	require.Contains(t, run("help", "exit-status"), "\n76 ")
}

// The version of a release is checked in internal/api/release, which installs one.
func TestTheVersionIsPrintedWithoutAServer(t *testing.T) {
	version := strings.TrimSuffix(output(t, "version"), "\n")
	require.NotEmpty(t, version)
	require.JSONEq(t, `{"version": "`+version+`"}`, output(t, "version", "-o", "json"))
	require.Equal(t, version+"\n", output(t, "--version"))
}

// output runs a command that needs no server, and returns what it prints.
func output(t *testing.T, args ...string) string {
	var out bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &checked{Writer: &out}, stderr: &out}
	require.Zero(t, a.run(args), "%v: %s", args, &out)
	return out.String()
}
