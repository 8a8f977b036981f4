//go:build unix

package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/serve"
)

// prepared checks these flags of zkr serve, and lets go of the address.
func prepared(t *testing.T, change func(*serveFlags)) (f *serveFlags, stderr string, err error) {
	t.Helper()
	var out bytes.Buffer
	a := &app{stderr: &out}
	f = &serveFlags{listen: "127.0.0.1:0", opts: serve.Options{Root: "/"}}
	change(f)
	err = a.prepareServe(t.Context(), f)
	if err == nil {
		require.NoError(t, f.opts.Listener.Close())
	}
	return f, out.String(), err
}

func TestServeRefusesFlagsThatAreWrong(t *testing.T) {
	for name, change := range map[string]func(*serveFlags){
		`"locks", not as`:       func(f *serveFlags) { f.opts.Root = "locks" },
		`"/locks/", not as`:     func(f *serveFlags) { f.opts.Root = "/locks/" },
		"without a port":        func(f *serveFlags) { f.opts.Hosts = []string{"::1", "zkr.example:8080"} },
		"needs --allow-actions": func(f *serveFlags) { f.tokenFile = "token" },
		"--listen":              func(f *serveFlags) { f.listen = "8080" },
		":0 needs --host":       func(f *serveFlags) { f.listen = ":0" },
		"0.0.0.0:0 needs":       func(f *serveFlags) { f.listen = "0.0.0.0:0" },
		"[::]:0 needs":          func(f *serveFlags) { f.listen = "[::]:0" },
		"host.example:0 needs":  func(f *serveFlags) { f.listen = "host.example:0" },
	} {
		_, _, err := prepared(t, change)
		require.ErrorContains(t, err, name)
		require.Equal(t, exitUsage, exitCode(err), name)
	}
}

func TestServeMakesATokenOnlyForActions(t *testing.T) {
	f, stderr, err := prepared(t, func(*serveFlags) {})
	require.NoError(t, err)
	require.Empty(t, f.opts.Token+stderr)
	tokens := map[string]bool{}
	for range 2 {
		f, stderr, err := prepared(t, func(f *serveFlags) { f.allowActions = true })
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(f.opts.Token), 26, "130 bits")
		require.Contains(t, stderr, f.opts.Token)
		tokens[f.opts.Token] = true
	}
	require.Len(t, tokens, 2)
}

func TestServeReadsATokenThatOthersCannotRead(t *testing.T) {
	for _, row := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"a token of enough bytes\n", 0o600, "a token of enough bytes"},
		{"a token of enough bytes\n", 0o644, ""}, {"short", 0o600, ""}, {"", 0o600, ""}, {strings.Repeat(" ", 50), 0o600, ""},
	} {
		path := newFile(t, row.text)
		require.NoError(t, os.Chmod(path, row.mode))
		f, stderr, err := prepared(t, func(f *serveFlags) { f.allowActions, f.tokenFile = true, path })
		require.Equal(t, pick(row.want == "", exitConfig, 0), exitCode(err), row)
		require.Equal(t, row.want, f.opts.Token)
		require.Empty(t, stderr, "it is not printed")
	}
}

func TestATokenThatPassesUnencryptedIsWarnedOf(t *testing.T) {
	for _, row := range []struct {
		listen, public string
		warns          bool
	}{
		{"127.0.0.1:0", "", false}, {"localhost:0", "", false}, {"[::1]:0", "", false},
		{"0.0.0.0:0", "http://zkr.example", true}, {"0.0.0.0:0", "https://zkr.example", false},
	} {
		f, stderr, err := prepared(t, func(f *serveFlags) {
			f.listen, f.publicURL, f.allowActions = row.listen, row.public, true
		})
		require.NoError(t, err, row)
		require.Equal(t, row.warns, strings.Contains(stderr, "unencrypted"), row)
		if row.public != "" {
			require.Contains(t, f.opts.Hosts, "zkr.example")
			require.Equal(t, "zkr.example", f.opts.Public)
		}
	}
	_, _, err := prepared(t, func(f *serveFlags) { f.publicURL = "zkr.example" })
	require.ErrorContains(t, err, "--public-url")
}
