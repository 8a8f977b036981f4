//go:build unix

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// configure returns an app with these flags, whose configuration file has the text.
func configure(t *testing.T, file string, args ...string) (*app, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "zkr.env")
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	a := &app{stderr: &bytes.Buffer{}}
	a.config.addFlags((&cobra.Command{}).PersistentFlags())
	require.NoError(t, a.config.flags.Parse(append([]string{"--config", path}, args...)))
	return a, a.config.load()
}

func TestFlagsComeBeforeTheEnvironmentAndThatBeforeTheFile(t *testing.T) {
	file := "# servers\nZKR_SERVERS=file:1/prefix\nexport ZKR_IDENTITY='from file'\n\nZKR_SESSION_TIMEOUT=\"7s\"\n"
	t.Setenv("ZKR_IDENTITY", "from environment")
	t.Setenv("ZKR_SESSION_TIMEOUT", "8s")
	a, err := configure(t, file, "--session-timeout", "9s")
	require.NoError(t, err)
	servers, opts, err := a.options(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"file:1"}, servers)
	require.Equal(t, "/prefix", opts.Prefix)
	require.Equal(t, "from environment", opts.Identity)
	require.Equal(t, 9*time.Second, opts.SessionTimeout)
	require.Equal(t, "15s", a.config.get("ZKR_CONNECT_TIMEOUT"), "the default")

	a, err = configure(t, "", "-S", "flag:1")
	require.NoError(t, err)
	servers, _, err = a.options(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"flag:1"}, servers)
}

func TestAFileThatIsWrongIsRefused(t *testing.T) {
	_, err := configure(t, "digest:user:secret\n")
	require.ErrorContains(t, err, "line 1")
	require.NotContains(t, err.Error(), "secret")
	_, err = configure(t, "ZKR_SERVER=zk1\n")
	require.ErrorContains(t, err, "ZKR_SERVERS", "the known names")
	require.Equal(t, exitConfig, exitCode(err))

	a := &app{}
	a.config.addFlags((&cobra.Command{}).PersistentFlags())
	a.config.path = filepath.Join(t.TempDir(), "missing")
	require.ErrorIs(t, a.config.load(), os.ErrNotExist, "it was named")
}

// There is no flag for a secret, so ps cannot show one. A file with a secret must be private.
// Whoever writes the file chooses the servers, and what proves that they are those.
func TestAFileThatOthersMayWriteIsRefused(t *testing.T) {
	a, err := configure(t, "ZKR_SERVERS=zk1\n")
	require.NoError(t, err)
	for mode, isRefused := range map[os.FileMode]bool{0o664: true, 0o602: true, 0o644: false} {
		require.NoError(t, os.Chmod(a.config.path, mode))
		err := a.config.load()
		require.Equal(t, isRefused, err != nil, "%v: %v", mode, err)
		require.True(t, !isRefused || exitCode(err) == exitConfig && strings.Contains(err.Error(), "chmod go-w"), err)
	}
}

// Its owner may write it, whatever its mode is.
func TestAFileOfAnotherUserIsRefused(t *testing.T) {
	for _, of := range [][2]int{{0, 0}, {0, 5}, {5, 5}} {
		require.NoError(t, checkOwner("file", of[0], of[1]))
	}
	for _, of := range [][2]int{{1, 0}, {6, 5}} {
		require.Error(t, checkOwner("file", of[0], of[1]))
	}
	if os.Geteuid() != 0 { // and cannot give a file away
		return
	}
	a, err := configure(t, "ZKR_SERVERS=zk1\n")
	require.NoError(t, err)
	require.NoError(t, os.Chown(a.config.path, 1, -1))
	auth := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(auth, []byte("digest:a:b\n"), 0o600))
	_, err = readPrivate(t.Context(), auth)
	require.NoError(t, err)
	require.NoError(t, os.Chown(auth, 1, -1))
	_, authErr := readPrivate(t.Context(), auth)
	for path, err := range map[string]error{a.config.path: a.config.load(), auth: authErr} {
		require.ErrorContains(t, err, path+" belongs to user 1,")
		require.Equal(t, exitConfig, exitCode(err))
	}
}

func TestASignalEndsTheWaitForAFileThatNobodyWrites(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, flag := range []string{"--auth-file", "--sasl-password-file"} {
		a, err := configure(t, "", "--sasl-user", "alice", flag, fifo)
		require.NoError(t, err)
		a.signals = make(chan os.Signal, 1)
		a.signals <- syscall.SIGINT
		err = a.waiting(t.Context(), func(ctx context.Context) error {
			_, err := a.dial(ctx)
			return err
		})
		require.Equal(t, 130, exitCode(err), err)
	}
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
	a, err := configure(t, "ZKR_AUTH=digest:file:secret\n")
	require.NoError(t, err)
	creds, err := a.auth(t.Context())
	require.NoError(t, err)
	require.Len(t, creds, 1)
	require.Equal(t, "digest", creds[0].Scheme)
	require.Equal(t, "file:secret", string(creds[0].Data))
	for _, s := range settings {
		require.Equal(t, s.env == "ZKR_AUTH" || s.env == "ZKR_SASL_PASSWORD", s.flag == "", s.env)
	}

	require.NoError(t, os.Chmod(a.config.path, 0o640))
	err = a.config.load()
	require.ErrorContains(t, err, "chmod 600")
	require.NotContains(t, err.Error(), "secret")

	path := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(path, []byte("digest:a:b\n\nx509:c\n"), 0o600))
	t.Setenv("ZKR_AUTH", "digest:environment:secret")
	a, err = configure(t, "", "--auth-file", path)
	require.NoError(t, err)
	creds, err = a.auth(t.Context())
	require.NoError(t, err)
	require.Len(t, creds, 3)
	require.NoError(t, os.Chmod(path, 0o604))
	_, err = a.auth(t.Context())
	require.ErrorContains(t, err, "chmod 600")
	t.Setenv("ZKR_AUTH", "secret")
	a, err = configure(t, "")
	require.NoError(t, err)
	_, err = a.auth(t.Context())
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

func TestSASLIsDigestOrKerberos(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	password := file("password", "s3cret\n")
	conf := file("krb5.conf", "[libdefaults]\ndefault_realm = EXAMPLE.COM\n")
	cfg, err := configure(t, "")
	require.NoError(t, err)
	none, err := cfg.sasl(t.Context())
	require.NoError(t, err)
	require.Nil(t, none)

	a, err := configure(t, "ZKR_SASL_USER=alice\nZKR_SASL_PASSWORD=s3cret\n")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(a.config.path, 0o640))
	require.ErrorContains(t, a.config.load(), "chmod 600")
	require.NoError(t, os.Chmod(password, 0o640))

	for _, args := range [][]string{
		{"--sasl-user", "alice"}, {"--sasl-user", "alice", "--sasl-password-file", password}, {"--sasl-user", "alice", "--sasl-password-file", dir + "/none"},
		{"--sasl-user", "alice", "--krb5-principal", "alice"}, {"--krb5-principal", "alice", "--krb5-conf", conf, "--krb5-keytab", dir + "/none"},
		{"--krb5-keytab", password, "--krb5-conf", conf}, {"--krb5-principal", "alice", "--krb5-conf", dir + "/none"},
	} {
		a, err := configure(t, "", args...)
		require.NoError(t, err)
		_, _, err = a.options(t.Context())
		require.Error(t, err, args)
		require.Equal(t, exitConfig, exitCode(err), args)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestTLSIsAllOrNothing(t *testing.T) {
	a, err := configure(t, "")
	require.NoError(t, err)
	cfg, err := a.tls()
	require.NoError(t, err)
	require.Nil(t, cfg)

	a, err = configure(t, "ZKR_TLS_SERVER_NAME=zk\n", "--tls")
	require.NoError(t, err)
	cfg, err = a.tls()
	require.NoError(t, err)
	require.Equal(t, "zk", cfg.ServerName)
	require.False(t, cfg.InsecureSkipVerify)

	file := func(text []byte) string {
		name := filepath.Join(t.TempDir(), "file.pem")
		require.NoError(t, os.WriteFile(name, text, 0o600))
		return name
	}
	cert, key := harness.PEM(t, harness.NewCA(t).Issue(t, "alice"))
	_, foreignKey := harness.PEM(t, harness.NewCA(t).Issue(t, "alice"))
	for _, args := range [][]string{
		{"--tls-ca", "/nonexistent"}, {"--tls-cert", "/nonexistent"}, {"--tls-key", "/nonexistent"}, {"--tls=perhaps"},
		{"--tls-ca", file(key)}, {"--tls-cert", file(cert)}, {"--tls-cert", file(cert), "--tls-key", file(foreignKey)},
		{"--tls-server-name", "zk"}, // it would verify nothing
	} {
		a, err = configure(t, "", args...)
		require.NoError(t, err)
		_, _, err = a.options(t.Context())
		require.Equal(t, exitConfig, exitCode(err), args)
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
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &out}
	require.Zero(t, a.run(args), "%v: %s", args, &out)
	return out.String()
}
