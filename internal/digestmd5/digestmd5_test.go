package digestmd5

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example of RFC 2831, section 4.
func TestTheProofsAreThoseOfTheRFC(t *testing.T) {
	p := proof{
		user: "chris", realm: "elwood.innosoft.com", password: "secret",
		nonce: "OA6MG9tEQGm2hh", cnonce: "OA6MHXh6VqTrRk", uri: "imap/elwood.innosoft.com",
	}
	require.Equal(t, "d388dad90d4bbd760a152321f2143af7", p.response())
	require.Equal(t, "ea40f60335c427b5527b84dbabcdfffd", p.rspauth())
}

// exchange runs both sides, and passes each token on as edit returns it.
func exchange(c *Client, s *Server, edit func(token string) string) error {
	token, err := c.Start()
	for done := false; err == nil && !done; {
		var challenge []byte
		if challenge, err = s.Step([]byte(edit(string(token)))); err == nil {
			token, done, err = c.Step([]byte(edit(string(challenge))))
		}
	}
	return err
}

func asIs(token string) string { return token }

func TestAClientWithThePasswordIsAuthenticated(t *testing.T) {
	for user, password := range map[string]string{
		"alice": "secret", `al"ice\`: `se,"cret\`, "jürgen": "pässwörd", "ключ": "пароль", "jürgen2": "пароль", "a b": "", "x=y": "=,",
	} {
		s := NewServer(map[string]string{user: password, "other": "secret"})
		require.NoError(t, exchange(NewClient(user, password), s, asIs), user)
		require.Equal(t, user, s.User())
		_, err := s.Step(nil)
		require.Error(t, err, "it is over")
		require.Equal(t, user, s.User())
	}
}

func TestAClientWithoutThePasswordIsRefused(t *testing.T) {
	for user, password := range map[string]string{"alice": "wrong", "nobody": "secret", "": "", "alice ": "secret"} {
		s := NewServer(map[string]string{"alice": "secret"})
		require.ErrorContains(t, exchange(NewClient(user, password), s, asIs), "wrong password, or unknown user", user)
		require.Empty(t, s.User())
		_, err := s.Step(nil)
		require.Error(t, err, "no second try")
	}
}

func TestAServerThatDoesNotKnowThePasswordIsRefused(t *testing.T) {
	for _, proof := range []string{"", "rspauth=", "rspauth=ea40f60335c427b5527b84dbabcdfffd", "x=y", "rspauth=a,rspauth=b"} {
		s := NewServer(map[string]string{"alice": "secret"})
		err := exchange(NewClient("alice", "secret"), s, func(token string) string {
			if strings.HasPrefix(token, "rspauth") {
				return proof
			}
			return token
		})
		require.ErrorIs(t, err, ErrNoProof, proof)
	}
}

func TestAChangedTokenIsRefused(t *testing.T) {
	for _, change := range [][2]string{
		{"nonce=", "n0nce="}, {"algorithm=md5-sess", "algorithm=md5"}, {",algorithm=md5-sess", ""}, {"charset=utf-8", "charset=utf-16"}, {"charset=utf-8,", ""},
		{"md5-sess", `md5-sess,qop="auth-conf"`}, {"md5-sess", "md5-sess,nonce=2"}, {"md5-sess", "md5-sess,charset=utf-8"},
		{"nc=00000001", "nc=00000002"}, {"qop=auth", "qop=auth-int"}, {"digest-uri=", "uri="}, {"zookeeper/", "imap/"},
		{`realm="zk-sasl-md5"`, `realm="other"`}, {"username=", "user="}, {`username="alice"`, `username="bob"`}, {"cnonce=", "c="}, {"response=", "r="},
		{"rspauth=", `rspauth="`}, {"rspauth=", "rspauth"},
	} {
		s := NewServer(map[string]string{"alice": "secret", "bob": "secret"})
		changed := false
		err := exchange(NewClient("alice", "secret"), s, func(token string) string {
			after := strings.Replace(token, change[0], change[1], 1)
			changed = changed || after != token
			return after
		})
		require.Error(t, err, "%q", change)
		require.True(t, changed, "%q", change)
	}
}

func TestAServerMayOfferMore(t *testing.T) {
	for _, challenge := range []string{
		`realm="zk-sasl-md5",nonce="x",qop="auth-conf, auth-int ,auth",charset=utf-8,algorithm=md5-sess,maxbuf=4096,cipher="rc4"`,
		` nonce = "x" , , algorithm = MD5-SESS ,realm="a",realm="b",Charset=UTF-8`,
	} {
		token, done, err := NewClient("alice", "secret").Step([]byte(challenge))
		require.NoError(t, err, challenge)
		require.False(t, done)
		ds, err := parse(token)
		require.NoError(t, err)
		require.Equal(t, []string{"alice"}, ds.get("username"))
		require.Equal(t, []string{"utf-8"}, ds.get("charset"))
	}
}

// No error shows a password.
func FuzzStep(f *testing.F) {
	f.Add([]byte(`realm="zk-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess`), []byte("rspauth=x"))
	f.Add([]byte(`a="\`), []byte(`"`))
	f.Add([]byte(`=`), []byte(``))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		c := NewClient("alice", "tops3cret")
		for _, challenge := range [][]byte{first, second} {
			if _, _, err := c.Step(challenge); err != nil && !strings.Contains(string(first)+string(second), "tops3cret") {
				require.NotContains(t, err.Error(), "tops3cret")
			}
		}
		s := NewServer(map[string]string{"alice": "tops3cret"})
		s.Step(nil)
		_, err := s.Step(first)
		require.Error(t, err, "without the password")
	})
}
