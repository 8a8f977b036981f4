// Package digestmd5 implements the SASL mechanism DIGEST-MD5 (RFC 2831) as ZooKeeper's servers
// speak it, the client's side and the server's: authentication only, without a security layer.
//
// The mechanism is old (RFC 6331 moves it to historic). Whoever reads the exchange can try
// passwords against it, as fast as MD5 can be computed. So it belongs on TLS.
package digestmd5

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	// Mechanism is the registered name.
	Mechanism = "DIGEST-MD5"

	// realm and uri are constants of ZooKeeper (SecurityUtils.createSaslServer). The realm of the
	// challenge counts, and the server compares the uri with its own.
	realm = "zk-sasl-md5"
	uri   = "zookeeper/zk-sasl-md5"

	// nonceCount is that of a first response. Nobody authenticates a second time with a nonce.
	nonceCount = "00000001"
)

// directive is a name with its value, such as charset=utf-8.
type directive struct{ name, value string }

type directives []directive

// get returns the values of a directive. Names are not case-sensitive.
func (ds directives) get(name string) (values []string) {
	for _, d := range ds {
		if strings.EqualFold(d.name, name) {
			values = append(values, d.value)
		}
	}
	return values
}

// one returns the value of a directive that occurs once.
func (ds directives) one(name string) (string, error) {
	values := ds.get(name)
	if len(values) != 1 {
		return "", fmt.Errorf("%d directives %q instead of one", len(values), name)
	}
	return values[0], nil
}

// option returns the value of a directive that occurs once at most, and preset without it.
func (ds directives) option(name, preset string) (string, error) {
	if len(ds.get(name)) == 0 {
		return preset, nil
	}
	return ds.one(name)
}

var errMalformed = errors.New("malformed list of directives")

const space = " \t\r\n"

// parse reads directives, separated by commas. Empty ones between two commas are skipped.
func parse(text []byte) (ds directives, err error) {
	for {
		text = bytes.TrimLeft(text, space+",")
		if len(text) == 0 {
			return ds, nil
		}
		name, rest, found := bytes.Cut(text, []byte("="))
		name = bytes.TrimRight(name, space)
		if !found || len(name) == 0 || bytes.ContainsAny(name, space+`",`) {
			return nil, errMalformed
		}
		value, rest, err := parseValue(bytes.TrimLeft(rest, space))
		if err != nil {
			return nil, err
		}
		ds = append(ds, directive{string(name), value})
		rest = bytes.TrimLeft(rest, space)
		if len(rest) > 0 && rest[0] != ',' {
			return nil, errMalformed
		}
		text = rest
	}
}

// parseValue reads a token or a quoted string, and returns what follows.
func parseValue(text []byte) (value string, rest []byte, err error) {
	if len(text) == 0 || text[0] != '"' {
		end := bytes.IndexAny(text, space+`,"`)
		if end < 0 {
			end = len(text)
		}
		return string(text[:end]), text[end:], nil
	}
	var unquoted []byte
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return string(unquoted), text[i+1:], nil
		case '\\':
			if i++; i == len(text) {
				return "", nil, errMalformed
			}
		}
		unquoted = append(unquoted, text[i])
	}
	return "", nil, errMalformed
}

// quote returns text as a quoted string.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// hashed returns text as it enters a hash: in ISO 8859-1 if that has all of its characters, although
// the directives are in UTF-8 (section 2.1.2.1).
func hashed(text string) string {
	var latin1 []byte
	for _, r := range text {
		if r > 0xff {
			return text
		}
		latin1 = append(latin1, byte(r))
	}
	return string(latin1)
}

func sum(text string) string {
	h := md5.Sum([]byte(text))
	return string(h[:])
}

func hexSum(text string) string { return hex.EncodeToString([]byte(sum(text))) }

// proof is what both sides compute from the password.
type proof struct{ user, realm, password, nonce, cnonce, uri string }

// response returns what proves to the server that the client knows the password.
func (p proof) response() string { return p.value("AUTHENTICATE") }

// rspauth returns what proves to the client that the server knows it, too.
func (p proof) rspauth() string { return p.value("") }

// value returns the value of section 2.1.2.1. It differs for the two sides by a word.
func (p proof) value(word string) string {
	secret := sum(hashed(p.user) + ":" + hashed(p.realm) + ":" + hashed(p.password))
	a1 := secret + ":" + p.nonce + ":" + p.cnonce
	return hexSum(strings.Join([]string{hexSum(a1), p.nonce, nonceCount, p.cnonce, "auth", hexSum(word + ":" + p.uri)}, ":"))
}
