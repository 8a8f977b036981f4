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
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// dial connects to the ensemble that the configuration names.
func (a *app) dial(ctx context.Context) (*zkrecipes.Client, error) {
	servers, opts, err := a.options(ctx)
	if err != nil {
		return nil, err
	}
	a.servers, a.isTLS = servers, opts.TLS != nil // what options reads may be there once only
	patience, err := a.duration("ZKR_CONNECT_TIMEOUT")
	if err != nil {
		return nil, err
	}
	dialing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// The first attempt ends early, to say what is wrong. The next one has the rest of the time, for
	// servers that need it.
	first, cancelFirst := context.WithTimeout(dialing, dialSilence)
	defer cancelFirst()
	client, err := zkrecipes.Dial(first, servers, opts)
	if err != nil && first.Err() != nil && dialing.Err() == nil {
		why := noConnection(dialing, servers, opts.TLS != nil, err)
		if dialing.Err() == nil && !a.isJSON() {
			fmt.Fprintf(a.stderr, "zkr: no connection yet: %s\n", view.Clean(why))
		}
		client, err = zkrecipes.Dial(dialing, servers, opts)
	}
	switch {
	case err == nil:
		return client, nil
	case ctx.Err() != nil:
		return nil, &failure{exitUnavailable, err}
	case dialing.Err() != nil:
		return nil, failf(exitUnavailable, "no connection in %v: %s", patience, view.Clean(noConnection(ctx, servers, opts.TLS != nil, err)))
	}
	return nil, err
}

// options returns the servers, and the options of a Client.
func (a *app) options(ctx context.Context) (servers []string, opts *zkrecipes.Options, err error) {
	opts = &zkrecipes.Options{Identity: a.identity()}
	if servers, opts.Prefix, err = zkrecipes.ParseServers(a.config.get("ZKR_SERVERS")); err != nil {
		return nil, nil, &failure{exitUsage, err}
	}
	if opts.SessionTimeout, err = a.duration("ZKR_SESSION_TIMEOUT"); err != nil {
		return nil, nil, err
	}
	if opts.Auth, err = a.auth(ctx); err != nil {
		return nil, nil, err
	}
	if opts.SASL, err = a.sasl(ctx); err != nil {
		return nil, nil, err
	}
	if opts.TLS, err = a.tls(); err != nil {
		return nil, nil, &failure{exitConfig, err}
	}
	verbose, err := a.boolean("ZKR_VERBOSE")
	if err != nil {
		return nil, nil, err
	}
	if verbose {
		var h slog.Handler = slog.NewTextHandler(a.stderr, nil)
		if a.isJSON() {
			h = slog.NewJSONHandler(a.stderr, nil)
		}
		opts.Logger = slog.New(h)
	}
	return servers, opts, nil
}

// identity returns what others see of this process.
func (a *app) identity() string {
	identity := a.config.get("ZKR_IDENTITY")
	if identity == "" {
		host, _ := os.Hostname()
		identity = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	return view.Nested(identity, os.Getenv("ZKR_SESSION"))
}

func (a *app) duration(env string) (time.Duration, error) {
	d, err := time.ParseDuration(a.config.get(env))
	if err != nil || d <= 0 {
		return 0, failf(exitUsage, "%s is %q, which is no duration such as 10s", env, a.config.get(env))
	}
	return d, nil
}

func (a *app) boolean(env string) (bool, error) {
	value := a.config.get(env)
	if value == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		return false, failf(exitUsage, "%s is %q, not true or false", env, value)
	}
	return b, nil
}

// auth returns the credentials. No error shows one.
func (a *app) auth(ctx context.Context) ([]zkrecipes.Auth, error) {
	creds, err := parseAuth("ZKR_AUTH", a.config.get("ZKR_AUTH"))
	path := a.config.get("ZKR_AUTH_FILE")
	if err != nil || path == "" {
		return creds, err
	}
	text, err := readPrivate(ctx, path)
	if err != nil {
		return nil, err
	}
	more, err := parseAuth(path, string(text))
	return append(creds, more...), err
}

// readPrivate reads a file that others than its owner must not be able to read.
func readPrivate(ctx context.Context, path string) ([]byte, error) {
	return reading(ctx, func() ([]byte, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, failf(exitConfig, "%w", err)
		}
		defer file.Close()
		if err := checkPrivate(file); err != nil {
			return nil, err
		}
		text, err := io.ReadAll(file)
		if err != nil {
			return nil, failf(exitConfig, "%w", err)
		}
		return text, nil
	})
}

// parseAuth parses credentials, one a line. where names the text in an error.
func parseAuth(where, text string) (creds []zkrecipes.Auth, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		scheme, data, ok := strings.Cut(line, ":")
		if !ok || scheme == "" || data == "" {
			return nil, failf(exitConfig, "%s, line %d: a credential is scheme:data, as in digest:user:password", where, n)
		}
		creds = append(creds, zkrecipes.Auth{Scheme: scheme, Data: []byte(data)})
	}
	return creds, nil
}

// tls returns the configuration for TLS, or nil without TLS.
func (a *app) tls() (*tls.Config, error) {
	ca, cert, key := a.config.get("ZKR_TLS_CA"), a.config.get("ZKR_TLS_CERT"), a.config.get("ZKR_TLS_KEY")
	on, err := a.boolean("ZKR_TLS")
	if err != nil {
		return nil, err
	}
	name := a.config.get("ZKR_TLS_SERVER_NAME")
	if !on && ca == "" && cert == "" && key == "" {
		if name != "" {
			return nil, errors.New("ZKR_TLS_SERVER_NAME needs TLS: --tls, --tls-ca or --tls-cert")
		}
		return nil, nil
	}
	cfg := &tls.Config{ServerName: name}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in PEM", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("ZKR_TLS_CERT and ZKR_TLS_KEY need each other")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
