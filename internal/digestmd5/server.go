package digestmd5

import (
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
)

// Server is the server's side of one exchange. Java's DigestMD5Server, which ZooKeeper uses, is the
// model.
type Server struct {
	passwords  map[string]string // by user
	nonce      string
	challenged bool
	over       bool
	user       string // who has been authenticated
}

// NewServer returns the server's side of an exchange with these passwords, by user.
func NewServer(passwords map[string]string) *Server {
	return &Server{passwords: passwords, nonce: rand.Text()}
}

// User returns the user that the exchange has authenticated, "" before that.
func (s *Server) User() string { return s.user }

// Step answers the first token, whatever it is, with the challenge, and the client's response with
// the server's proof. After an error, or once the client is authenticated, all else is an error.
func (s *Server) Step(token []byte) (answer []byte, err error) {
	switch {
	case s.over:
		return nil, errors.New("the exchange is over")
	case s.challenged:
		s.over = true
		return s.verify(token)
	}
	s.challenged = true
	return []byte("realm=" + quote(realm) + ",nonce=" + quote(s.nonce) + ",charset=utf-8,algorithm=md5-sess"), nil
}

// verify checks a response and returns the server's proof.
func (s *Server) verify(response []byte) ([]byte, error) {
	ds, err := parse(response)
	if err != nil {
		return nil, err
	}
	for _, want := range []struct{ name, value string }{
		{"realm", realm}, {"nonce", s.nonce}, {"nc", nonceCount}, {"digest-uri", uri}, {"qop", "auth"},
	} {
		got, err := ds.one(want.name)
		if err == nil && !strings.EqualFold(got, want.value) {
			err = fmt.Errorf("%s is %q", want.name, got)
		}
		if err != nil {
			return nil, err
		}
	}
	user, userErr := ds.one("username")
	cnonce, cnonceErr := ds.one("cnonce")
	got, gotErr := ds.one("response")
	if err := errors.Join(userErr, cnonceErr, gotErr); err != nil {
		return nil, err
	}
	password, known := s.passwords[user]
	p := proof{user: user, realm: realm, password: password, nonce: s.nonce, cnonce: cnonce, uri: uri}
	if !hmac.Equal([]byte(got), []byte(p.response())) || !known {
		return nil, fmt.Errorf("wrong password, or unknown user %q", user)
	}
	s.user = user
	return []byte("rspauth=" + p.rspauth()), nil
}
