//go:build unix

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/serve"
)

// prepared checks these flags of zkr serve, and lets go of the address.
func prepared(t *testing.T, change func(*serveFlags)) (f *serveFlags, stderr string, err error) {
	t.Helper()
	var out bytes.Buffer
	a := &app{stderr: &out}
	f = &serveFlags{listen: "127.0.0.1:0", opts: serve.Options{Root: "/", Stale: time.Minute, Refresh: time.Second, Requests: 80, Lines: 10}}
	change(f)
	err = a.prepareServe(t.Context(), f)
	if err == nil {
		require.NoError(t, f.opts.Listener.Close())
	}
	return f, out.String(), err
}

func TestServeRefusesFlagsThatAreWrong(t *testing.T) {
	for name, change := range map[string]func(*serveFlags){
		"must begin with /":     func(f *serveFlags) { f.opts.Root = "locks" },
		"--stale is 0s":         func(f *serveFlags) { f.opts.Stale = 0 },
		"--refresh is 1ns":      func(f *serveFlags) { f.opts.Refresh = 1 },
		"--requests is 3":       func(f *serveFlags) { f.opts.Requests = 3 },
		"--lines is 0":          func(f *serveFlags) { f.opts.Lines = 0 },
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
	require.Empty(t, f.opts.Token)
	require.Empty(t, stderr)
	one, stderr, err := prepared(t, func(f *serveFlags) { f.allowActions = true })
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(one.opts.Token), 26, "130 bits")
	require.Contains(t, stderr, one.opts.Token)
	other, _, err := prepared(t, func(f *serveFlags) { f.allowActions = true })
	require.NoError(t, err)
	require.NotEqual(t, one.opts.Token, other.opts.Token)
}

func TestServeReadsATokenThatOthersCannotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	read := func(text string, mode os.FileMode) (string, string, error) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		f, stderr, err := prepared(t, func(f *serveFlags) { f.allowActions, f.tokenFile = true, path })
		return f.opts.Token, stderr, err
	}
	token, stderr, err := read("a token of enough bytes\n", 0o600)
	require.NoError(t, err)
	require.Equal(t, "a token of enough bytes", token)
	require.Empty(t, stderr, "it is not printed")
	for text, mode := range map[string]os.FileMode{"a token of enough bytes": 0o644, "short": 0o600, "": 0o600, strings.Repeat(" ", 50): 0o600} {
		token, _, err := read(text, mode)
		require.Equal(t, exitConfig, exitCode(err), text)
		require.Empty(t, token)
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
