//go:build unix

package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// config has the settings. A flag, the environment or the configuration file gives each, in this order.
type config struct {
	servers, identity, output             string
	authFile, saslUser, saslPasswordFile  string
	krb5Principal, krb5Keytab, krb5Conf   string
	useTLS, verbose                       bool
	tlsCA, tlsCert, tlsKey, tlsServerName string
	sessionTimeout, connectTimeout        time.Duration
	auth, saslPassword                    string
	path                                  string                 // of the file that --config names
	secrets                               pflag.FlagSet          // auth and saslPassword
	settings                              map[string]*pflag.Flag // all but path, by their variables
}

// addFlags adds the flags of the settings.
func (c *config) addFlags(flags *pflag.FlagSet) {
	c.sessionTimeout, c.connectTimeout = 10*time.Second, 15*time.Second
	flags.StringVarP(&c.servers, "servers", "S", "localhost:2181", "connect string, host:port,host:port/prefix")
	flags.StringVar(&c.authFile, "auth-file", "", "file of credentials, one scheme:data a line")
	flags.StringVar(&c.saslUser, "sasl-user", "", "user for SASL (DIGEST-MD5)")
	flags.StringVar(&c.saslPasswordFile, "sasl-password-file", "", "file with that user's password")
	flags.StringVar(&c.krb5Principal, "krb5-principal", "", "principal for Kerberos, from the credentials cache without a keytab")
	flags.StringVar(&c.krb5Keytab, "krb5-keytab", "", "file with the principal's keys")
	flags.StringVar(&c.krb5Conf, "krb5-conf", "", "configuration of Kerberos (default $KRB5_CONFIG, /etc/krb5.conf)")
	flags.BoolVar(&c.useTLS, "tls", false, "use TLS, with the system's CAs")
	flags.StringVar(&c.tlsCA, "tls-ca", "", "PEM file of the servers' CAs; implies --tls")
	flags.StringVar(&c.tlsCert, "tls-cert", "", "PEM file of the client's certificate; implies --tls")
	flags.StringVar(&c.tlsKey, "tls-key", "", "PEM file of the client's key")
	flags.StringVar(&c.tlsServerName, "tls-server-name", "", "name to verify instead of the server's")
	flags.Var(durationFrom(time.Millisecond, &c.sessionTimeout), "session-timeout", "requested session timeout")
	flags.Var(durationFrom(time.Millisecond, &c.connectTimeout), "connect-timeout", "how long to try to connect")
	flags.StringVar(&c.identity, "identity", "", "what others see of this process (default host:pid)")
	flags.StringVarP(&c.output, "output", "o", "text", "text or json")
	flags.BoolVarP(&c.verbose, "verbose", "v", false, "log changes of the session on stderr")
	// No command line has these flags: every user of the machine can read it in ps.
	c.secrets.StringVar(&c.auth, "auth", "", "")
	c.secrets.StringVar(&c.saslPassword, "sasl-password", "", "")

	c.settings = map[string]*pflag.Flag{}
	enter := func(f *pflag.Flag) {
		variable := "ZKR_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		c.settings[variable] = f
		f.Usage += " ($" + variable + ")"
	}
	flags.VisitAll(enter)
	c.secrets.VisitAll(enter)
	flags.StringVar(&c.path, "config", "", "file of NAME=value lines with the names of the environment ($ZKR_CONFIG)")
}

// load reads the environment and the file.
func (c *config) load(ctx context.Context) error {
	if err := c.set(os.LookupEnv); err != nil {
		return err
	}
	values, err := reading(ctx, c.readFile)
	if err != nil {
		return &failure{exitConfig, err}
	}
	return c.set(func(variable string) (string, bool) {
		text, ok := values[variable]
		return text, ok
	})
}

// readFile reads the file. One that nobody has named may be missing.
func (c *config) readFile() (map[string]string, error) {
	path := cmp.Or(c.path, os.Getenv("ZKR_CONFIG"))
	isNamed := path != ""
	if !isNamed {
		dir, err := os.UserConfigDir()
		if err != nil {
			return nil, nil // no home, no file
		}
		path = filepath.Join(dir, "zkr", "zkr.env")
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !isNamed {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	values, err := c.parse(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	_, hasAuth := values["ZKR_AUTH"]
	_, hasPassword := values["ZKR_SASL_PASSWORD"]
	return values, checkFile(file, os.Geteuid(), hasAuth || hasPassword)
}

// set gives those settings a value that have none yet. An empty one is the default.
func (c *config) set(lookup func(variable string) (string, bool)) error {
	for _, variable := range slices.Sorted(maps.Keys(c.settings)) {
		f := c.settings[variable]
		text, ok := lookup(variable)
		if !ok || f.Changed {
			continue
		}
		if err := f.Value.Set(cmp.Or(text, f.DefValue)); err != nil {
			return failf(exitUsage, "invalid value %q of %s: %w", text, variable, err)
		}
		f.Changed = true
	}
	return nil
}

// parse parses lines of NAME=value. Empty lines and those that begin with # are comments.
// Quotes around a value are removed, so that shells and systemd can read the file, too.
func (c *config) parse(r io.Reader) (map[string]string, error) {
	values := map[string]string{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		variable, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok {
			return nil, fmt.Errorf("line %d is not NAME=value", n) // it may be a secret
		}
		if c.settings[variable] == nil {
			return nil, fmt.Errorf("line %d: unknown name %q (zkr help settings)", n, variable)
		}
		values[variable] = unquote(value)
	}
	return values, lines.Err()
}

func unquote(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

// checkFile returns an error if others than the user and root may write the file, as its owner may
// whatever its mode is: they would choose the servers to which zkr gives its credentials. Nor may they
// read one with a secret. A pipe is that of the caller's choice.
func checkFile(file *os.File, user int, isSecret bool) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	mode, owner := info.Mode(), int(info.Sys().(*syscall.Stat_t).Uid)
	switch {
	case mode.IsRegular() && owner != 0 && owner != user:
		return fmt.Errorf("%s belongs to user %d, and zkr runs as user %d: chown it", file.Name(), owner, user)
	case mode.Perm()&0o077 != 0 && isSecret:
		return fmt.Errorf("%s has credentials, and others may read it (mode %04o): chmod 600 it", file.Name(), mode.Perm())
	case mode.Perm()&0o022 != 0 && mode.IsRegular():
		return fmt.Errorf("%s may be written by others (mode %04o): chmod go-w it", file.Name(), mode.Perm())
	}
	return nil
}
