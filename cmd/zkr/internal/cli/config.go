//go:build unix

package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

// setting is a value that a flag, the environment or the configuration file gives, in this
// order.
type setting struct {
	flag, short string // no flag: a secret, which every user of the machine could read in ps
	env         string
	preset      string
	usage       string
}

var settings = []setting{
	{"servers", "S", "ZKR_SERVERS", "localhost:2181", "connect string, host:port,host:port/prefix"},
	{"", "", "ZKR_AUTH", "", "credential, scheme:data, as digest:user:password"},
	{"auth-file", "", "ZKR_AUTH_FILE", "", "file of credentials, one scheme:data a line"},
	{"sasl-user", "", "ZKR_SASL_USER", "", "user for SASL (DIGEST-MD5)"},
	{"", "", "ZKR_SASL_PASSWORD", "", "that user's password"},
	{"sasl-password-file", "", "ZKR_SASL_PASSWORD_FILE", "", "file with that user's password"},
	{"krb5-principal", "", "ZKR_KRB5_PRINCIPAL", "", "principal for Kerberos, from the credentials cache without a keytab"},
	{"krb5-keytab", "", "ZKR_KRB5_KEYTAB", "", "file with the principal's keys"},
	{"krb5-conf", "", "ZKR_KRB5_CONF", "", "configuration of Kerberos (default $KRB5_CONFIG, /etc/krb5.conf)"},
	{"tls", "", "ZKR_TLS", "", "use TLS, with the system's CAs (true, false)"},
	{"tls-ca", "", "ZKR_TLS_CA", "", "PEM file of the servers' CAs; implies --tls"},
	{"tls-cert", "", "ZKR_TLS_CERT", "", "PEM file of the client's certificate; implies --tls"},
	{"tls-key", "", "ZKR_TLS_KEY", "", "PEM file of the client's key"},
	{"tls-server-name", "", "ZKR_TLS_SERVER_NAME", "", "name to verify instead of the server's"},
	{"session-timeout", "", "ZKR_SESSION_TIMEOUT", "10s", "requested session timeout"},
	{"connect-timeout", "", "ZKR_CONNECT_TIMEOUT", "15s", "how long to try to connect"},
	{"identity", "", "ZKR_IDENTITY", "", "what others see of this process (default host:pid)"},
	{"output", "o", "ZKR_OUTPUT", "text", "text or json"},
	{"verbose", "v", "ZKR_VERBOSE", "", "log changes of the session on stderr (true, false)"},
}

// config is where the values of settings come from.
type config struct {
	flags *pflag.FlagSet
	path  string // of the file that --config names
	file  map[string]string
}

// addFlags adds the settings' flags, and --config.
func (c *config) addFlags(flags *pflag.FlagSet) {
	c.flags = flags
	flags.StringVar(&c.path, "config", "", "file of NAME=value lines with the names of the environment ($ZKR_CONFIG)")
	for _, s := range settings {
		if s.flag == "" {
			continue
		}
		flags.StringP(s.flag, s.short, s.preset, s.usage+" ($"+s.env+")")
		if s.isSwitch() {
			flags.Lookup(s.flag).NoOptDefVal = "true"
		}
	}
}

func (s setting) isSwitch() bool { return s.env == "ZKR_TLS" || s.env == "ZKR_VERBOSE" }

// load reads the file. One that nobody has named may be missing.
func (c *config) load() error {
	path := cmp.Or(c.path, os.Getenv("ZKR_CONFIG"))
	named := path != ""
	if !named {
		dir, err := os.UserConfigDir()
		if err != nil {
			return nil // no home, no file
		}
		path = filepath.Join(dir, "zkr", "zkr.env")
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		return failf(exitConfig, "%w", err)
	}
	defer file.Close()
	if err := checkOwn(file); err != nil {
		return err
	}
	if c.file, err = parseFile(file); err != nil {
		return failf(exitConfig, "%s: %w", path, err)
	}
	for _, s := range settings {
		if _, found := c.file[s.env]; found && s.flag == "" {
			return checkPrivate(file)
		}
	}
	return nil
}

// checkOwn returns an error if others than the user of this process and root may write the file: they
// would choose the servers to which zkr gives its credentials.
func checkOwn(file *os.File) error {
	info, err := statOwn(file)
	if err != nil {
		return err
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o022 != 0 {
		return failf(exitConfig, "%s may be written by others (mode %04o): chmod go-w it", file.Name(), mode.Perm())
	}
	return nil
}

// checkPrivate returns an error if others than the user of this process and root may read the file.
func checkPrivate(file *os.File) error {
	info, err := statOwn(file)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return failf(exitConfig, "%s has credentials, and others may read it (mode %04o): chmod 600 it", file.Name(), mode)
	}
	return nil
}

// statOwn returns an error if the file belongs to another user, who may write it whatever its mode is.
// A pipe is that of the caller's choice.
func statOwn(file *os.File) (fs.FileInfo, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, failf(exitConfig, "%w", err)
	}
	if !info.Mode().IsRegular() {
		return info, nil
	}
	return info, checkOwner(file.Name(), int(info.Sys().(*syscall.Stat_t).Uid), os.Geteuid())
}

func checkOwner(name string, owner, user int) error {
	if owner != 0 && owner != user {
		return failf(exitConfig, "%s belongs to user %d, and zkr runs as user %d: chown it", name, owner, user)
	}
	return nil
}

// parseFile parses lines of NAME=value. Empty lines and those that begin with # are comments.
// Quotes around a value are removed, so that shells and systemd can read the file, too.
func parseFile(r io.Reader) (map[string]string, error) {
	values := map[string]string{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if !ok {
			return nil, fmt.Errorf("line %d is not NAME=value", n) // it may be a secret
		}
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.env == name }) {
			return nil, fmt.Errorf("line %d: unknown name %q; known are %s", n, name, strings.Join(names(), ", "))
		}
		values[name] = unquote(value)
	}
	return values, lines.Err()
}

func names() (names []string) {
	for _, s := range settings {
		names = append(names, s.env)
	}
	return slices.Sorted(slices.Values(names))
}

func unquote(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

// get returns the value of the setting with this name in the environment.
func (c *config) get(env string) string {
	s := settings[slices.IndexFunc(settings, func(s setting) bool { return s.env == env })]
	if s.flag != "" {
		if f := c.flags.Lookup(s.flag); f.Changed {
			return f.Value.String()
		}
	}
	if value, ok := os.LookupEnv(env); ok {
		return value
	}
	if value, ok := c.file[env]; ok {
		return value
	}
	return s.preset
}
