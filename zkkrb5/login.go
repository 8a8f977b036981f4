package zkkrb5

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// What the KDC is asked.

// logIn returns a ticket granting ticket. c.kdc must be held.
func (c *Credentials) logIn() (ticket, error) {
	if c.cfg.CCache != "" {
		return c.fromCCache()
	}
	cl, err := c.client()
	if err != nil {
		return ticket{}, err
	}
	request, err := messages.NewASReqForTGT(c.realm, c.conf, c.name)
	if err != nil {
		return ticket{}, err
	}
	reply, err := guard(func() (messages.ASRep, error) { return cl.ASExchange(c.realm, request, 0) })
	if err != nil {
		return ticket{}, err
	}
	return newTicket(reply.Ticket, reply.DecryptedEncPart), nil
}

// client returns what logs in, with the keys as they are now. It is used without its own sessions,
// whose renewal nobody could wait for.
func (c *Credentials) client() (*client.Client, error) {
	user := c.name.PrincipalNameString()
	if c.cfg.Keytab != "" {
		keys, err := c.loadKeytab()
		if err != nil {
			return nil, err
		}
		return client.NewWithKeytab(user, c.realm, keys, c.conf), nil
	}
	password, err := c.cfg.Password()
	if err != nil {
		return nil, err
	}
	return client.NewWithPassword(user, c.realm, password, c.conf), nil
}

// fromCCache returns the ticket granting ticket of the credentials cache.
func (c *Credentials) fromCCache() (ticket, error) {
	cache, err := loadCCache(c.cfg.CCache)
	if err != nil {
		return ticket{}, err
	}
	if owner := cache.GetClientPrincipalName().PrincipalNameString() + "@" + cache.GetClientRealm(); owner != c.principal() {
		return ticket{}, fmt.Errorf("%s is now that of %s", c.cfg.CCache, owner)
	}
	entry, ok := cache.GetEntry(types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", c.realm}})
	if !ok {
		return ticket{}, fmt.Errorf("%s has no ticket granting ticket: run kinit", c.cfg.CCache)
	}
	t := ticket{key: &entry.Key, since: entry.AuthTime, until: entry.EndTime}
	if err := t.Unmarshal(entry.Ticket); err != nil {
		return ticket{}, fmt.Errorf("%s: %w", c.cfg.CCache, err)
	}
	if !t.isValid() {
		return ticket{}, fmt.Errorf("the ticket in %s has expired at %v: run kinit", c.cfg.CCache, t.until)
	}
	return t, nil
}

// grant returns a ticket for a service. If that is in another realm, it first gets a ticket granting
// ticket for that. c.kdc must be held.
func (c *Credentials) grant(tgt ticket, service string) (ticket, error) {
	_, host, _ := strings.Cut(service, "/")
	if realm := c.conf.ResolveRealm(host); realm != "" && realm != c.realm {
		foreign, err := c.grantBy(tgt, c.realm, types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}})
		if err != nil {
			return ticket{}, err
		}
		return c.grantBy(foreign, realm, types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, service))
	}
	return c.grantBy(tgt, c.realm, types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, service))
}

// grantBy returns a ticket that the KDC of a realm gives for a ticket granting ticket of it.
func (c *Credentials) grantBy(tgt ticket, realm string, name types.PrincipalName) (ticket, error) {
	cl := client.NewWithPassword(c.name.PrincipalNameString(), c.realm, "", c.conf) // the ticket is all it needs
	defer cl.Destroy()                                                              // if the KDC refers it to another realm, a goroutine renews its ticket there
	reply, err := guard(func() (messages.TGSRep, error) {
		_, reply, err := cl.TGSREQGenerateAndExchange(name, realm, tgt.Ticket, *tgt.key, false)
		return reply, err
	})
	if err != nil {
		return ticket{}, err
	}
	return newTicket(reply.Ticket, reply.DecryptedEncPart), nil
}

func (c *Credentials) loadKeytab() (*keytab.Keytab, error) {
	data, err := os.ReadFile(c.cfg.Keytab)
	if err != nil {
		return nil, fmt.Errorf("keytab %s: %w", c.cfg.Keytab, err)
	}
	keys := keytab.New()
	if _, err := guard(func() (any, error) { return nil, keys.Unmarshal(slices.Clip(data)) }); err != nil {
		return nil, fmt.Errorf("keytab %s: malformed or cut short", c.cfg.Keytab) // gokrb5's text has the keys
	}
	return keys, nil
}

// loadCCache reads a credentials cache. It may end too early, if it is just being written.
func loadCCache(path string) (*credentials.CCache, error) {
	data, err := os.ReadFile(path)
	cache := new(credentials.CCache)
	if err == nil {
		cache, err = guard(func() (*credentials.CCache, error) {
			return cache, cache.Unmarshal(slices.Clip(data)) // or it would read what lies behind the end
		})
	}
	if err != nil {
		return nil, fmt.Errorf("credentials cache %s: %w", path, err)
	}
	return cache, nil
}

// guard calls f, in which gokrb5 reads what others have written: a server, a KDC, or kinit. gokrb5
// panics at texts that are too short, before it knows whose they are.
func guard[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("malformed or cut short: %v", why)
		}
	}()
	return f()
}

// explain adds to an error of the KDC what it means. gokrb5 keeps only its text.
func explain(err error) error {
	text := err.Error()
	if strings.Contains(text, "KRB_AP_ERR_SKEW") || strings.Contains(text, "clock skew") {
		return fmt.Errorf("the clocks of this machine and of the KDC differ too much: %w", err)
	}
	for _, refusal := range []string{
		"KDC_ERR_PREAUTH_FAILED", "KDC_ERR_C_PRINCIPAL_UNKNOWN", "KDC_ERR_CLIENT_REVOKED", "KDC_ERR_KEY_EXPIRED", "KDC_ERR_NAME_EXP",
		"integrity verification failed", "matching key not found in keytab", // the client has a wrong key, or none
	} {
		if strings.Contains(text, refusal) {
			return fmt.Errorf("%w: %w", zk.ErrAuthFailed, err)
		}
	}
	return err
}
