//go:build unix

package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/serve"
)

// serveFlags are those of zkr serve.
type serveFlags struct {
	opts         serve.Options
	listen       string
	publicURL    string
	allowActions bool
	tokenFile    string
}

func (a *app) serve() *cobra.Command {
	f := &serveFlags{opts: serve.Options{Stale: time.Minute, Refresh: 10 * time.Second, Requests: 80, Lines: 1000}}
	c := &cobra.Command{
		Use:   "serve [ROOT]",
		Short: "Show recipes live on a page in the browser",
		Long: "Serve shows what happens in the recipes below ROOT on a page: lines with holders and waiters,\n" +
			"queues, who waits for whom with deadlocks in red, and the last 15 minutes. It watches one or two\n" +
			"znodes of each line, whatever the number of browsers, and sends at most --requests a second.\n\n" +
			"Whoever can connect to --listen can read the page, as every user of this machine can by default.\n" +
			"With --allow-actions the page can evict a place. It asks for a token, which zkr prints at its\n" +
			"start unless --token-file names a file with one.\n\n" +
			"What is in the items of queues may be confidential. With --show-data, whoever can read the page can\n" +
			"read the first 4 KiB of an item there, too.",
		Example: "  zkr serve /locks --listen 127.0.0.1:8080",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			f.opts.Root = rootOf(args)
			if err := a.waiting(c.Context(), func(ctx context.Context) error { return a.prepareServe(ctx, f) }); err != nil {
				return err
			}
			defer f.opts.Listener.Close()
			return a.with(c, func(ctx context.Context, client *zkrecipes.Client) error {
				fmt.Fprintf(a.stderr, "zkr: the page is at %s\n", cmp.Or(f.publicURL, fmt.Sprintf("http://%s/", f.opts.Listener.Addr())))
				return serve.Run(ctx, client, f.opts)
			})
		},
	}
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8080", "address of the page")
	c.Flags().StringSliceVar(&f.opts.Hosts, "host", nil, "name under which browsers may ask for the page, beside localhost")
	c.Flags().StringVar(&f.publicURL, "public-url", "", "address under which browsers reach the page through a proxy, as https://zkr.example")
	c.Flags().BoolVar(&f.allowActions, "allow-actions", false, "let the page evict places, with a token")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "file with the token (default: zkr makes one and prints it)")
	c.Flags().BoolVar(&f.opts.Data, "show-data", false, "let the page show what is in items, on request")
	c.Flags().Var(durationFrom(time.Millisecond, &f.opts.Stale), "stale", "mark what was held or taken for longer")
	c.Flags().Var(durationFrom(leastInterval, &f.opts.Refresh), "refresh", "how often to look at all znodes again, at most")
	c.Flags().Var(numberFrom(4, &f.opts.Requests), "requests", "requests a second, at most")
	c.Flags().Var(numberFrom(1, &f.opts.Lines), "lines", "recipes to show, at most")
	return c
}

// prepareServe checks the flags, makes the token and listens.
func (a *app) prepareServe(ctx context.Context, f *serveFlags) error {
	switch {
	case f.tokenFile != "" && !f.allowActions:
		return failf(exitUsage, "--token-file needs --allow-actions")
	case path.Clean("/"+f.opts.Root) != f.opts.Root:
		return failf(exitUsage, "ROOT is %q, not as /locks", f.opts.Root)
	case slices.ContainsFunc(f.opts.Hosts, func(host string) bool { return strings.Contains(host, ":") && net.ParseIP(host) == nil }):
		return failf(exitUsage, "--host is %q, and must be a name without a port", f.opts.Hosts)
	}
	isTLS, err := f.checkPublicURL()
	if err != nil {
		return err
	}
	host, err := f.checkListen()
	if err != nil {
		return err
	}
	isLocal := host == "localhost" || net.ParseIP(host).IsLoopback()
	if f.allowActions && !isTLS && !isLocal {
		fmt.Fprintf(a.stderr, "zkr: warning: the token for actions passes unencrypted to %s; put TLS before it, and set --public-url\n", f.listen)
	}
	if f.allowActions {
		if f.opts.Token, err = a.serveToken(ctx, f.tokenFile); err != nil {
			return err
		}
	}
	if f.opts.Listener, err = net.Listen("tcp", f.listen); err != nil {
		return failf(exitUnavailable, "%w", err)
	}
	return nil
}

// checkListen returns the host of --listen, which is a name of the page if it is that of one address.
func (f *serveFlags) checkListen() (host string, err error) {
	host, _, err = net.SplitHostPort(f.listen)
	if err != nil {
		return "", failf(exitUsage, "--listen: %w", err)
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		f.opts.Hosts = append(f.opts.Hosts, host)
	} else if host != "localhost" && len(f.opts.Hosts) == 0 {
		return "", failf(exitUsage, "--listen %s needs --host, the name under which browsers ask for the page", f.listen)
	}
	return host, nil
}

// checkPublicURL takes the host of --public-url, and reports whether it is one of TLS.
func (f *serveFlags) checkPublicURL() (isTLS bool, err error) {
	if f.publicURL == "" {
		return false, nil
	}
	u, err := url.Parse(f.publicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false, failf(exitUsage, "--public-url is %q, not as https://zkr.example", f.publicURL)
	}
	f.opts.Public = u.Host
	f.opts.Hosts = append(f.opts.Hosts, u.Hostname())
	return u.Scheme == "https", nil
}

// serveToken returns the token in the file, or makes one and prints it.
func (a *app) serveToken(ctx context.Context, path string) (string, error) {
	if path == "" {
		token := rand.Text()
		fmt.Fprintf(a.stderr, "zkr: the token for actions is %s\n", token)
		return token, nil
	}
	text, err := readPrivate(ctx, path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < 16 {
		return "", failf(exitConfig, "%s has a token of %d bytes, and it must have at least 16", path, len(token))
	}
	return token, nil
}
