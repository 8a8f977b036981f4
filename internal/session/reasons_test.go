package session_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

// What a Client says of servers that it cannot use.

// answering is a Dialer to a server that reads what the client sends first, answers so and
// closes the connection.
func answering(answer string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			if _, err := far.Read(make([]byte, 4096)); err == nil {
				_, _ = io.WriteString(far, answer)
			}
		}()
		return near, nil
	}
}

func TestAPortThatSpeaksAnotherProtocolIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		tls    *tls.Config
		want   []string
	}{
		"HTTP":              {"HTTP/1.1 400 Bad Request\r\n\r\n", nil, []string{"speaks HTTP, not ZooKeeper's protocol"}},
		"SSH":               {"SSH-2.0-OpenSSH_9.9\r\n", nil, []string{`speaks something that begins with "SSH-"`}},
		"a TLS alert":       {"\x15\x03\x03\x00\x02\x02\x50", nil, []string{"speaks TLS, not ZooKeeper's protocol"}},
		"closed":            {"", nil, []string{"EOF", "no quorum", "maxClientCnxns", "expects TLS"}},
		"TLS, closed":       {"", &tls.Config{}, []string{"TLS: EOF", "does it speak TLS on this port?"}},
		"TLS to plain HTTP": {"HTTP/1.1 400 Bad Request\r\n\r\n", &tls.Config{}, []string{"the server does not speak TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				log := &recipetest.Warnings{}
				_, err := zkrecipes.Dial(harness.Within(t, 5*time.Second), []string{"zk.example:2181"}, &zkrecipes.Options{
					Dialer: answering(test.answer), TLS: test.tls, Logger: log.Logger(),
				})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				for _, text := range append(test.want, "zk.example:2181: ") {
					require.ErrorContains(t, err, text)
				}
				require.Len(t, log.With("server=zk.example:2181"), 1)
			})
		})
	}
}

func TestEachReasonWhyAServerIsNotReachedIsLoggedOnceInTenSeconds(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		log := &recipetest.Warnings{}
		began := time.Now()
		// With up to a second between two tries, the third is due by 26 s and a fourth from 33 s on.
		_, err := zkrecipes.Dial(harness.Within(t, 30*time.Second), []string{"zk.example:2181"}, &zkrecipes.Options{
			Logger: log.Logger(),
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if time.Since(began) < 3*time.Second {
					return nil, errors.New("no such host")
				}
				return nil, &net.AddrError{Err: "refused", Addr: time.Since(began).String()[:1]}
			},
		})
		require.Error(t, err)
		require.Len(t, log.With("no such host"), 1)
		require.Len(t, log.With("refused"), 3, "from 3, 13 and 23 s on")
	})
}
