// Package zkkrb5 authenticates Clients of zkrecipes by Kerberos: it makes the SASL mechanism GSSAPI
// (RFC 4752) for zkrecipes.Options.SASL, from a keytab, a password or a credentials cache.
//
// The client and the server authenticate each other. What follows is not encrypted, as ZooKeeper's
// servers offer no security layer: use Options.TLS for that.
package zkkrb5

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/types"
	"golang.org/x/sync/singleflight"

	"github.com/zkrecipes/zkrecipes"
)

// Mechanism is the registered name of the mechanism.
const Mechanism = "GSSAPI"

// Config has the client's principal and how to name the servers. Set at most one of Keytab, Password
// and CCache. Without any, the default credentials cache is used. A Config holds no secret.
type Config struct {
	// Principal is the client's, such as alice@EXAMPLE.COM or app/host.example.com. The default
	// realm is that of the configuration. With a credentials cache, Principal may be empty.
	Principal string
	// Keytab is a file with keys of Principal. It is read at each login, so it may be replaced.
	Keytab string
	// Password returns the password of Principal. It is called at each login, and must not block.
	Password func() (string, error)
	// CCache is a file with a ticket that kinit or another program has got and renews. It is read
	// again when the ticket is about to expire. Default: the file that $KRB5CCNAME names,
	// or else /tmp/krb5cc_<uid>. Other kinds of caches are not supported.
	CCache string

	// Conf is the configuration of Kerberos. Default: the file that $KRB5_CONFIG names, or else
	// /etc/krb5.conf.
	Conf string
	// Service is the first part of the servers' principals, service/host. Default "zookeeper".
	Service string
	// CanonicalizeHost makes host the canonical name of the server's address, by a reverse lookup.
	// ZooKeeper's own client does so by default (zookeeper.sasl.client.canonicalize.hostname).
	// Here host is the name that was given to Dial unless this is set, because an attacker who
	// forges answers of DNS could otherwise choose which server is trusted.
	CanonicalizeHost bool
}

// Credentials are those of one principal. They may be used by many Clients at once.
type Credentials struct {
	cfg   Config
	conf  *config.Config
	name  types.PrincipalName
	realm string

	flights singleflight.Group // by service principal
	kdc     sync.Mutex         // held while the KDC is asked

	mu       sync.Mutex
	closed   bool
	done     chan struct{}  // closed by Close
	work     sync.WaitGroup // goroutines
	renewing bool           // a goroutine renews tickets
	tgt      ticket
	services map[string]ticket // by service principal
}

// New reads the configuration. It does not ask the KDC, which Clients do when they connect. It returns
// an error if cfg contradicts itself or a file cannot be read. Close the result when no Client uses
// it any more.
func New(cfg Config) (*Credentials, error) {
	c, err := newCredentials(cfg)
	if err != nil {
		return nil, fmt.Errorf("zkkrb5: %w", err)
	}
	return c, nil
}

func newCredentials(cfg Config) (*Credentials, error) {
	sources := 0
	for _, set := range []bool{cfg.Keytab != "", cfg.Password != nil, cfg.CCache != ""} {
		if set {
			sources++
		}
	}
	switch {
	case sources > 1:
		return nil, errors.New("more than one of Keytab, Password and CCache is set")
	case sources == 0:
		cfg.CCache = cmp.Or(os.Getenv("KRB5CCNAME"), "/tmp/krb5cc_"+strconv.Itoa(os.Getuid()))
	}
	cfg.CCache = strings.TrimPrefix(cfg.CCache, "FILE:")
	cfg.Service = cmp.Or(cfg.Service, "zookeeper")
	first, _, _ := strings.Cut(os.Getenv("KRB5_CONFIG"), ":")
	cfg.Conf = cmp.Or(cfg.Conf, first, "/etc/krb5.conf")
	conf, err := config.Load(cfg.Conf)
	if _, unknown := err.(config.UnsupportedDirective); err != nil && !unknown {
		return nil, err
	}
	c := &Credentials{cfg: cfg, conf: conf, done: make(chan struct{}), services: map[string]ticket{}}
	if err := c.setPrincipal(); err != nil {
		return nil, err
	}
	if cfg.Keytab != "" {
		if _, err := c.loadKeytab(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// setPrincipal splits the principal, or takes that of the credentials cache.
func (c *Credentials) setPrincipal() error {
	if c.cfg.CCache != "" {
		cache, err := loadCCache(c.cfg.CCache)
		if err != nil {
			return err
		}
		c.name, c.realm = cache.GetClientPrincipalName(), cache.GetClientRealm()
		if c.cfg.Principal == "" {
			return nil
		}
	}
	name, realm, _ := strings.Cut(c.cfg.Principal, "@")
	realm = cmp.Or(realm, c.conf.LibDefaults.DefaultRealm)
	switch {
	case name == "":
		return errors.New("no Principal")
	case realm == "":
		return fmt.Errorf("the principal %s has no realm, and %s no default_realm", name, c.cfg.Conf)
	}
	owner := c.principal()
	c.name, c.realm = types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, name), realm
	if c.cfg.CCache != "" && owner != c.principal() {
		return fmt.Errorf("the credentials cache %s is that of %s, not of %s", c.cfg.CCache, owner, c.principal())
	}
	return nil
}

func (c *Credentials) principal() string { return c.name.PrincipalNameString() + "@" + c.realm }

// SASL returns the mechanism for zkrecipes.Options.SASL.
//
// Its Principal is the whole name, such as alice@EXAMPLE.COM. If the servers shorten names
// (zookeeper.kerberos.removeRealmFromPrincipal, zookeeper.kerberos.removeHostFromPrincipal, or rules in
// zookeeper.security.auth_to_local), set the Principal of the result to the name that they make of it,
// as ACLs name the client by that.
//
// If there is a valid ticket for the server, a connection does not wait for the KDC. Otherwise it
// takes one request, and one or two more to log in. If the KDC refuses the principal or its key,
// Dial returns an error at once, which is zk.ErrAuthFailed. If the KDC does not answer, the Client
// tries again. With a keytab or a password, tickets are renewed in the background once 5/6 of their
// life have passed. So the KDC may be down for the last sixth of it.
func (c *Credentials) SASL() *zkrecipes.SASL {
	return &zkrecipes.SASL{Mechanism: Mechanism, Principal: c.principal(), Exchange: c.exchange}
}

func (c *Credentials) exchange(ctx context.Context, server zkrecipes.SASLServer) (zkrecipes.SASLExchange, error) {
	service := c.cfg.Service + "/" + c.host(ctx, server)
	t, err := c.ticketFor(ctx, service)
	if err != nil {
		return nil, fmt.Errorf("ticket for %s: %w", service, err)
	}
	return newExchange(c.name, c.realm, t)
}

// host returns the name of a server in its principal.
func (c *Credentials) host(ctx context.Context, server zkrecipes.SASLServer) string {
	host, _, _ := net.SplitHostPort(server.Name)
	if !c.cfg.CanonicalizeHost {
		return host
	}
	address, _, _ := net.SplitHostPort(server.Address)
	if addresses, err := net.DefaultResolver.LookupHost(ctx, address); err == nil && len(addresses) > 0 {
		address = addresses[0]
	}
	if names, err := net.DefaultResolver.LookupAddr(ctx, address); err == nil && len(names) > 0 {
		return strings.ToLower(strings.TrimSuffix(names[0], "."))
	}
	return host
}

// Close ends the renewal of tickets. From then on, Clients with these credentials cannot connect. Close
// waits for requests to the KDC that are under way, which take at most about ten seconds for each
// KDC of the realm. It always returns nil.
func (c *Credentials) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	c.mu.Unlock()
	c.work.Wait()
	return nil
}
