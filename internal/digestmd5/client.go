package digestmd5

import (
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNoProof is the error of a server that has not shown that it knows the password.
var ErrNoProof = errors.New("the server has not proved that it knows the password")

// Client is the client's side of one exchange.
type Client struct {
	user, password string
	cnonce         string
	expected       string // the server's proof; empty before the response
}

// NewClient returns the client's side of an exchange.
func NewClient(user, password string) *Client {
	return &Client{user: user, password: password, cnonce: rand.Text()}
}

// Start returns no token: the server begins.
func (c *Client) Start() ([]byte, error) { return nil, nil }

// Step answers the challenge, and then checks the server's proof.
func (c *Client) Step(challenge []byte) (token []byte, done bool, err error) {
	ds, err := parse(challenge)
	if err != nil {
		return nil, false, err
	}
	if c.expected != "" {
		return nil, true, c.check(ds)
	}
	token, err = c.respond(ds)
	return token, false, err
}

func (c *Client) check(ds directives) error {
	got, err := ds.option("rspauth", "")
	if err != nil || !hmac.Equal([]byte(got), []byte(c.expected)) {
		return ErrNoProof
	}
	return nil
}

// respond answers a challenge, as section 2.1.2 says.
func (c *Client) respond(ds directives) ([]byte, error) {
	nonce, err := ds.one("nonce")
	if err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	if err := checkOffer(ds); err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	offered := ""
	if realms := ds.get("realm"); len(realms) > 0 {
		offered = realms[0]
	}
	p := proof{user: c.user, realm: offered, password: c.password, nonce: nonce, cnonce: c.cnonce, uri: uri}
	answer := []string{"charset=utf-8", "username=" + quote(c.user)}
	if offered != "" {
		answer = append(answer, "realm="+quote(offered))
	}
	answer = append(answer, "nonce="+quote(nonce), "nc="+nonceCount, "cnonce="+quote(c.cnonce),
		"digest-uri="+quote(uri), "response="+p.response(), "qop=auth")
	c.expected = p.rspauth()
	return []byte(strings.Join(answer, ",")), nil
}

// checkOffer refuses a server that does not offer what the client speaks, as all of ZooKeeper's do.
func checkOffer(ds directives) error {
	charset, err := ds.option("charset", "")
	if err != nil {
		return err
	}
	if !strings.EqualFold(charset, "utf-8") {
		return fmt.Errorf("the server does not take names in UTF-8 (charset %q)", charset)
	}
	algorithm, err := ds.one("algorithm")
	if err != nil {
		return err
	}
	if !strings.EqualFold(algorithm, "md5-sess") {
		return fmt.Errorf("algorithm %q", algorithm)
	}
	qops, err := ds.option("qop", "auth")
	if err != nil {
		return err
	}
	isAuth := func(qop string) bool { return strings.EqualFold(strings.TrimSpace(qop), "auth") }
	if !slices.ContainsFunc(strings.Split(qops, ","), isAuth) {
		return fmt.Errorf("the server requires a security layer (qop %q)", qops)
	}
	return nil
}
