//go:build unix

package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
	"github.com/zkrecipes/zkrecipes/zkkrb5"
)

// dial connects to the ensemble that the configuration names.
func (a *app) dial(ctx context.Context) (*zkrecipes.Client, error) {
	opts, err := a.options(ctx)
	if err != nil {
		return nil, err
	}
	dialing, cancel := context.WithTimeout(ctx, a.config.connectTimeout)
	defer cancel()
	// The first attempt ends early, to say what is wrong. The next one has the rest of the time, for
	// servers that need it.
	first, cancelFirst := context.WithTimeout(dialing, dialSilence)
	defer cancelFirst()
	client, err := zkrecipes.Dial(first, a.servers, opts)
	if err != nil && first.Err() != nil && dialing.Err() == nil {
		why := a.noConnection(dialing, err)
		if dialing.Err() == nil && !a.isJSON() {
			fmt.Fprintf(a.stderr, "zkr: no connection yet: %s\n", view.Clean(why))
		}
		client, err = zkrecipes.Dial(dialing, a.servers, opts)
	}
	switch {
	case err == nil:
		return client, nil
	case ctx.Err() != nil:
		return nil, &failure{exitUnavailable, err}
	case dialing.Err() != nil:
		return nil, failf(exitUnavailable, "no connection in %v: %s", a.config.connectTimeout, view.Clean(a.noConnection(ctx, err)))
	}
	return nil, err
}

// options returns the options of a Client, and notes the servers. What it reads may be there once only.
func (a *app) options(ctx context.Context) (opts *zkrecipes.Options, err error) {
	opts = &zkrecipes.Options{Identity: a.identity(), SessionTimeout: a.config.sessionTimeout}
	if a.servers, opts.Prefix, err = zkrecipes.ParseServers(a.config.servers); err != nil {
		return nil, &failure{exitUsage, err}
	}
	if opts.Auth, err = a.auth(ctx); err != nil {
		return nil, err
	}
	if opts.SASL, err = a.sasl(ctx); err != nil {
		return nil, err
	}
	if opts.TLS, err = a.config.tls(); err != nil {
		return nil, &failure{exitConfig, err}
	}
	a.isTLS = opts.TLS != nil
	if a.config.verbose {
		var h slog.Handler = slog.NewTextHandler(a.stderr, nil)
		if a.isJSON() {
			h = slog.NewJSONHandler(a.stderr, nil)
		}
		opts.Logger = slog.New(h)
	}
	return opts, nil
}

// identity returns what others see of this process.
func (a *app) identity() string {
	identity := a.config.identity
	if identity == "" {
		host, _ := os.Hostname()
		identity = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return view.Nested(identity, os.Getenv("ZKR_SESSION"))
}

// auth returns the credentials. No error shows one.
func (a *app) auth(ctx context.Context) ([]zkrecipes.Auth, error) {
	creds, err := parseAuth("ZKR_AUTH", a.config.auth)
	if err != nil || a.config.authFile == "" {
		return creds, err
	}
	text, err := readPrivate(ctx, a.config.authFile)
	if err != nil {
		return nil, err
	}
	more, err := parseAuth(a.config.authFile, string(text))
	return append(creds, more...), err
}

// readPrivate reads a file that others than its owner must not be able to read.
func readPrivate(ctx context.Context, path string) ([]byte, error) {
	text, err := reading(ctx, func() ([]byte, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if err := checkFile(file, os.Geteuid(), true); err != nil {
			return nil, err
		}
		return io.ReadAll(file)
	})
	if err != nil {
		return nil, &failure{exitConfig, err}
	}
	return text, nil
}

// parseAuth parses credentials, one a line. where names the text in an error.
func parseAuth(where, text string) (creds []zkrecipes.Auth, err error) {
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		scheme, data, ok := strings.Cut(line, ":")
		if !ok || scheme == "" || data == "" {
			return nil, failf(exitConfig, "%s, line %d: a credential is scheme:data, as in digest:user:password", where, n+1)
		}
		creds = append(creds, zkrecipes.Auth{Scheme: scheme, Data: []byte(data)})
	}
	return creds, nil
}

// sasl returns the mechanism of SASL, or nil without one. No error shows a password.
func (a *app) sasl(ctx context.Context) (*zkrecipes.SASL, error) {
	c := &a.config
	switch kerberos := c.krb5Principal != "" || c.krb5Keytab != ""; {
	case kerberos && c.saslUser != "":
		return nil, failf(exitConfig, "ZKR_SASL_USER and Kerberos exclude each other")
	case kerberos:
		credentials, err := zkkrb5.New(zkkrb5.Config{Principal: c.krb5Principal, Keytab: c.krb5Keytab, Conf: c.krb5Conf})
		if err != nil {
			return nil, failf(exitConfig, "%w", err)
		}
		a.krb5 = credentials
		return credentials.SASL(), nil
	case c.saslUser == "":
		return nil, nil
	}
	password := c.saslPassword
	if c.saslPasswordFile != "" {
		text, err := readPrivate(ctx, c.saslPasswordFile)
		if err != nil {
			return nil, err
		}
		password = strings.TrimRight(string(text), "\r\n")
	}
	if password == "" {
		return nil, failf(exitConfig, "ZKR_SASL_USER needs ZKR_SASL_PASSWORD or ZKR_SASL_PASSWORD_FILE")
	}
	return zkrecipes.SASLDigest(c.saslUser, password), nil
}

// tls returns the configuration for TLS, or nil without TLS.
func (c *config) tls() (*tls.Config, error) {
	switch isOn := c.useTLS || c.tlsCA != "" || c.tlsCert != "" || c.tlsKey != ""; {
	case !isOn && c.tlsServerName != "":
		return nil, errors.New("ZKR_TLS_SERVER_NAME needs TLS: --tls, --tls-ca or --tls-cert")
	case !isOn:
		return nil, nil
	case (c.tlsCert == "") != (c.tlsKey == ""):
		return nil, errors.New("ZKR_TLS_CERT and ZKR_TLS_KEY need each other")
	}
	cfg := &tls.Config{ServerName: c.tlsServerName}
	if c.tlsCA != "" {
		pem, err := os.ReadFile(c.tlsCA)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in PEM", c.tlsCA)
		}
	}
	if c.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(c.tlsCert, c.tlsKey)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
