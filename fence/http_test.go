package fence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/fence"
)

// each runs the test on a server of HTTP/1.1 and on one of HTTP/2.
func each(t *testing.T, handler func() http.Handler, test func(t *testing.T, url string, client *http.Client)) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			h := handler()
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Proto != proto {
					t.Errorf("%s instead of %s", r.Proto, proto)
				}
				h.ServeHTTP(w, r)
			}))
			srv.EnableHTTP2 = proto == "HTTP/2.0"
			srv.StartTLS()
			t.Cleanup(srv.Close)
			client := srv.Client()
			client.Transport = &fence.Transport{Base: client.Transport}
			test(t, srv.URL, client)
		})
	}
}

// answer is a response.
type answer struct {
	status  int
	header  http.Header
	body    string
	refusal error // by ResponseError
}

// put sends a request of the holder, if there is one.
func put(t *testing.T, client *http.Client, url string, h fence.Holder, body io.Reader) answer {
	ctx := t.Context()
	if h != nil {
		ctx = fence.NewContext(ctx, h)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, body)
	require.NoError(t, err)
	resp, err := client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, string(all), fence.ResponseError(resp)}
}

// echo answers with the tokens of the request.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	h, ok := fence.FromContext(r.Context())
	if !ok {
		io.WriteString(w, "no tokens")
		return
	}
	json.NewEncoder(w).Encode(h.Fences())
})

func TestHandlerRefusesAnEarlierHolderWithAProblem(t *testing.T) {
	each(t, func() http.Handler { return fence.Handler(told(1), echo, nil) }, func(t *testing.T, url string, client *http.Client) {
		a := put(t, client, url, of(512), nil)
		require.Equal(t, http.StatusOK, a.status)
		require.NoError(t, a.refusal)
		require.JSONEq(t, `{"/locks/orders": 512}`, a.body)

		a = put(t, client, url, of(256), nil)
		require.Equal(t, http.StatusPreconditionFailed, a.status)
		require.ErrorIs(t, a.refusal, fence.ErrFenced)
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
		require.JSONEq(t, `{
			"type": "https://github.com/zkrecipes/zkrecipes/blob/main/docs/fencing.md#http",
			"title": "A later holder of the lock came first",
			"status": 412,
			"detail": "fence: \"/locks/orders\", token 256: refused: a later holder came first, with token 512"
		}`, a.body)
	})
}

func TestARequestWithoutATokenIsRefusedUnlessItIsOptional(t *testing.T) {
	for _, optional := range []bool{false, true} {
		opts := &fence.HandlerOptions{Optional: optional}
		each(t, func() http.Handler { return fence.Handler(told(1), echo, opts) }, func(t *testing.T, url string, client *http.Client) {
			a := put(t, client, url, nil, nil)
			if !optional {
				require.Equal(t, http.StatusPreconditionRequired, a.status)
				require.ErrorIs(t, a.refusal, fence.ErrNoToken)
				return
			}
			require.Equal(t, http.StatusOK, a.status)
			require.Equal(t, "no tokens", a.body)
			require.NoError(t, put(t, client, url, of(512), nil).refusal)
			require.ErrorIs(t, put(t, client, url, of(256), nil).refusal, fence.ErrFenced, "one with a token is fenced all the same")
		})
	}
}

func TestAMalformedTokenIsRefusedAlsoIfTokensAreOptional(t *testing.T) {
	h := fence.Handler(told(1), echo, &fence.HandlerOptions{Optional: true})
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/", nil)
	r.Header.Set(fence.Header, "512")
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.ErrorIs(t, fence.ResponseError(w.Result()), fence.ErrMalformed)
}

func TestARequestNeedsATokenOfTheFencesThatItsResourceHas(t *testing.T) {
	m := fence.NewMemory(func(context.Context, string) (int64, error) { return 1, nil })
	h := fence.Handler(m, echo, &fence.HandlerOptions{Names: func(r *http.Request) []string { return []string{"/app" + r.URL.Path} }})
	for value, code := range map[string]int{
		"/app/locks/a 6":             http.StatusOK,
		"/app/locks/a 6, /another 1": http.StatusOK,
		"/app/locks/b 5":             http.StatusPreconditionRequired,
		"/locks/a 5":                 http.StatusPreconditionRequired,
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/locks/a", nil)
		r.Header.Set(fence.Header, value)
		h.ServeHTTP(w, r)
		require.Equal(t, code, w.Code, value)
	}
}

func TestSeveralFieldsAreOneList(t *testing.T) {
	m := fence.NewMemory(func(context.Context, string) (int64, error) { return 1, nil })
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/", nil)
	r.Header.Add(fence.Header, "/a 1,/b 2")
	r.Header.Add(fence.Header, "/c 3")
	fence.Handler(m, echo, nil).ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"/a": 1, "/b": 2, "/c": 3}`, w.Body.String())
}

func TestAGuardThatCannotKnowRefusesWithoutItsError(t *testing.T) {
	secret := errors.New("password authentication failed for user alice")
	m := fence.NewMemory(func(context.Context, string) (int64, error) { return 0, secret })
	for name, test := range map[string]struct {
		h    http.Handler
		want error
	}{
		"a Memory after a restart": {fence.Handler(m, echo, nil), fence.ErrUnknown},
		"another error":            {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fence.Refuse(w, secret) }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, "/", nil)
			r.Header.Set(fence.Header, "/locks/orders 512")
			test.h.ServeHTTP(w, r)
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Equal(t, "1", w.Header().Get("Retry-After"))
			require.NotContains(t, w.Body.String(), "alice")
			err := fence.ResponseError(w.Result())
			require.Error(t, err)
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
		})
	}
}

func TestAResponseOfTheServicesOwnIsNoRefusal(t *testing.T) {
	for _, code := range []int{http.StatusPreconditionFailed, http.StatusPreconditionRequired, http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		w.WriteHeader(code)
		require.NoError(t, fence.ResponseError(w.Result()))
	}
}

// An earlier holder's client is suspended in the middle of its request.
func TestAClientThatIsSuspendedInItsRequestDoesNotKeepTheNextHolderWaiting(t *testing.T) {
	reading, failed := make(chan struct{}, 1), make(chan error, 1)
	handler := func() http.Handler {
		return fence.Handler(told(1), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := r.Body.Read(make([]byte, 1)); err != nil {
				return // the later holder's, which is empty
			}
			reading <- struct{}{}
			_, err := io.Copy(io.Discard, r.Body)
			failed <- errors.Join(err, context.Cause(r.Context()))
		}), nil)
	}
	each(t, handler, func(t *testing.T, url string, client *http.Client) {
		body, pipe := io.Pipe()
		defer pipe.Close()
		go func() {
			r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), of(256)), http.MethodPut, url, body)
			if err != nil {
				return
			}
			if resp, err := client.Do(r); err == nil {
				resp.Body.Close()
			}
		}()
		_, err := pipe.Write([]byte("9"))
		require.NoError(t, err)
		<-reading
		require.Equal(t, http.StatusOK, put(t, client, url, of(512), nil).status)
		require.ErrorIs(t, <-failed, fence.ErrFenced)
	})
}

// Its connection serves the requests of others afterwards, such as those of a proxy's other clients.
func TestARequestThatIsSentWhenALaterHolderComesGetsItsResponse(t *testing.T) {
	working := make(chan struct{}, 1)
	handler := func() http.Handler {
		return fence.Handler(told(1), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			if string(body) == "first" {
				working <- struct{}{}
				<-r.Context().Done()
			} else if r.Context().Err() != nil {
				t.Error(context.Cause(r.Context()))
			}
			w.Write(body)
		}), nil)
	}
	each(t, handler, func(t *testing.T, url string, client *http.Client) {
		first := make(chan string, 1)
		go func() {
			body := ""
			defer func() { first <- body }()
			r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), of(256)), http.MethodPut, url, strings.NewReader("first"))
			if err != nil {
				return
			}
			if resp, err := client.Do(r); err == nil {
				all, _ := io.ReadAll(resp.Body)
				body = string(all)
				resp.Body.Close()
			}
		}()
		<-working
		require.Equal(t, http.StatusOK, put(t, client, url, of(512), nil).status)
		require.Equal(t, "first", <-first)
		for range 2 { // on each of the connections
			require.Equal(t, http.StatusOK, put(t, client, url, of(512), strings.NewReader("next")).status)
		}
	})
}

func TestTransportRefusesAHolderWithoutAToken(t *testing.T) {
	body := &closing{Reader: strings.NewReader("9")}
	r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), fence.Tokens{}), http.MethodPut, "http://127.0.0.1:0", body)
	require.NoError(t, err)
	resp, err := (&fence.Transport{}).RoundTrip(r)
	if err == nil {
		resp.Body.Close()
	}
	require.ErrorIs(t, err, fence.ErrNoToken)
	require.True(t, body.closed)
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestTransportLeavesTheRequestAsItIs(t *testing.T) {
	srv := httptest.NewServer(fence.Handler(told(1), echo, nil))
	defer srv.Close()
	r, err := http.NewRequestWithContext(fence.NewContext(t.Context(), of(256)), http.MethodPut, srv.URL, nil)
	require.NoError(t, err)
	resp, err := (&fence.Transport{}).RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Empty(t, r.Header)
}

// The write may have been done, so the client must not take it for refused, nor repeat it.
func TestAnUncertainWriteIsNoRefusal(t *testing.T) {
	w := httptest.NewRecorder()
	fence.Refuse(w, fmt.Errorf("commit: %w: alice", fence.ErrUncertain))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Empty(t, w.Header().Get("Retry-After"))
	require.NotContains(t, w.Body.String(), "alice")
	require.ErrorIs(t, fence.ResponseError(w.Result()), fence.ErrUncertain)
}

// The context of the request ends for a reason of the service's own, and no later holder has come. The
// client is suspended, and must not keep the handler waiting, which would keep a later holder waiting.
func TestAResponseIsSentIfTheServiceItselfEndsTheContext(t *testing.T) {
	end := make(chan func(), 1)
	late := fence.Handler(told(1), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(<-end)()
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	}), nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		end <- cancel
		late.ServeHTTP(w, r.WithContext(ctx))
	}))
	defer srv.Close()
	body, suspended := io.Pipe()
	defer suspended.Close()
	go suspended.Write([]byte("part"))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, body)
	require.NoError(t, err)
	r.Header.Set(fence.Header, "/locks/orders 512")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusGatewayTimeout, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}
