package wire

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/jute"
)

var errStep = errors.New("step")

// loginOf returns a Login that sends "hello", answers each challenge with "re " and the challenge,
// is done with "done", and does not accept "bad".
func loginOf() *Login {
	return &Login{
		Mechanism: "TEST", Principal: "alice", Token: []byte("hello"),
		Step: func(challenge []byte) ([]byte, bool, error) {
			if string(challenge) == "bad" {
				return nil, false, errStep
			}
			return append([]byte("re "), challenge...), string(challenge) == "done", nil
		},
	}
}

// tokenReply is a server's answer with a token, or with none.
func tokenReply(xid int32, token []byte) []byte {
	return reply(xid, 0, 0, jute.AppendNullableBuffer(nil, token)...)
}

// logsIn runs f in a bubble with a Session whose connections log in.
func logsIn(t *testing.T, creds []Credential, f func(t *testing.T, r *rig)) {
	t.Helper()
	inBubble(t, creds, func(t *testing.T, r *rig) {
		r.login = loginOf()
		f(t, r)
	})
}

// tokens describes the tokens that have reached the server since the last call.
func (l *link) tokens() (tokens []string) {
	for _, frame := range l.frames() {
		d := jute.NewDecoder(frame[4:])
		xid, op := d.Int32(), d.Int32()
		tokens = append(tokens, fmt.Sprintf("%s %d %q", jute.OpName(op), xid, d.Buffer()))
		require.NoError(l.t, d.Err)
		require.Zero(l.t, d.Len())
	}
	return tokens
}

func TestALoginComesBeforeCredentialsAndTheConnectResponseIsDeliveredAfterIt(t *testing.T) {
	logsIn(t, []Credential{{Scheme: "digest", Auth: []byte("u:p")}}, func(t *testing.T, r *rig) {
		for range 2 { // the second connection resumes the session
			r.login = loginOf()
			l := r.handshake()
			l.frames()
			response := welcome()
			l.answer(response)
			require.Equal(t, []string{`sasl 1 "hello"`}, l.tokens())
			l.answer(tokenReply(1, []byte("who?")))
			require.Equal(t, []string{`sasl 2 "re who?"`}, l.tokens())
			l.answer(tokenReply(2, nil))
			require.Equal(t, []string{`sasl 3 "re "`}, l.tokens())
			require.Empty(t, l.read())
			l.answer(tokenReply(3, []byte("done")))
			require.Equal(t, []string{"auth -4"}, l.sent(), "nothing is sent for a login that is done")
			require.Empty(t, r.reported())
			l.answer(reply(jute.XidAuth, 0, 0))
			require.Equal(t, [][]byte{response}, l.read())
			l.requireUp()
			l.server.Close()
			r.reported()
		}
	})
}

func TestARefusedLoginIsAnAuthErrorThatNamesThePrincipal(t *testing.T) {
	for _, code := range []int32{jute.ErrAuthFailed, jute.ErrSASL} {
		for answered := range int32(2) {
			logsIn(t, nil, func(t *testing.T, r *rig) {
				l := r.handshake(welcome())
				for xid := int32(1); xid <= answered; xid++ {
					l.answer(tokenReply(xid, []byte("who?")))
				}
				l.answer(reply(answered+1, 0, code, jute.AppendNullableBuffer(nil, nil)...))
				var refused *AuthError
				require.ErrorAs(t, l.down(), &refused)
				require.EqualError(t, refused, `server refused SASL TEST as "alice"`)
				require.Empty(t, l.read())
				require.Zero(t, r.ID(), "the session is not accepted")
			})
		}
	}
}

func TestALoginThatFailsOtherwiseFailsTheHandshake(t *testing.T) {
	for name, answer := range map[string][]byte{
		"the mechanism does not accept it": tokenReply(1, []byte("bad")),
		"another xid":                      tokenReply(2, []byte("done")),
		"the xid of a credential":          reply(jute.XidAuth, 0, 0),
		"an event":                         event(jute.EventDeleted, "/a"),
		"another error":                    reply(1, 0, jute.ErrThrottled),
		"no token":                         reply(1, 0, 0),
		"half a token":                     reply(1, 0, 0, 0, 0, 0, 9, 'x'),
		"an empty frame":                   jute.Frame(nil),
		"a frame too long":                 jute.AppendInt32(nil, maxToken+1),
		"another protocol":                 []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"nothing":                          nil,
	} {
		t.Run(name, func(t *testing.T) {
			logsIn(t, nil, func(t *testing.T, r *rig) {
				l := r.handshake(welcome(), answer)
				if answer == nil {
					l.server.Close()
				}
				require.ErrorContains(t, l.down(), `handshake: SASL TEST as "alice": `)
				require.Empty(t, l.read())
				require.Zero(t, r.ID())
			})
		})
	}
}

// The session stays as it was, wherever the handshake is cut.
func TestAHandshakeWithALoginThatIsCutAtAnyByteDoesNotChangeTheSession(t *testing.T) {
	credential := reply(jute.XidAuth, 0, 0)
	answers := [][]byte{welcome(), tokenReply(1, []byte("who?")), tokenReply(2, []byte("done")), credential, credential}
	bytes := 0
	for _, answer := range answers {
		bytes += len(answer)
	}
	for cut := range bytes {
		logsIn(t, []Credential{{Scheme: "digest"}, {Scheme: "digest"}}, func(t *testing.T, r *rig) {
			l := r.handshake(answers...)
			l.requireUp()
			before := r.ValidUntil()
			l.server.Close()
			time.Sleep(time.Second)
			require.Equal(t, []string{"up 1", "down 1: EOF"}, r.reported())

			r.login = loginOf()
			l = r.handshake()
			left := cut
			for _, answer := range answers {
				n := min(left, len(answer))
				l.answer(answer[:n])
				if left -= n; left == 0 {
					break
				}
			}
			l.server.Close()
			require.ErrorContains(t, l.down(), "handshake")
			require.Empty(t, l.read())
			require.Len(t, r.reported(), 1)
			require.False(t, r.Over())
			require.Equal(t, before, r.ValidUntil())
		})
	}
}

func TestAPingThatAServerWithSASLRefusesNamesTheReason(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		l := r.resumeAlone(r.connect())
		l.write(ping())
		l.answer(reply(jute.XidPing, 0, jute.ErrSASL))
		require.ErrorIs(t, l.down(), errRequiresSASL)
		require.NotContains(t, r.reported(), "up 2")
	})
}
