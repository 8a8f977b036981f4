//go:build unix

package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	patience = time.Minute
	secret   = "a token of enough bytes"
)

// served is a page that is served, on a server of its own.
type served struct {
	t      *testing.T
	srv    *zktest.Server
	client *zkrecipes.Client // of the page
	http   *http.Client
	addr   string
	stop   context.CancelFunc
	done   chan error
}

func serveOn(t *testing.T, change func(*Options)) *served {
	t.Helper()
	s := &served{t: t, srv: zktest.NewServer(t), http: &http.Client{Transport: &http.Transport{}}, done: make(chan error, 1)}
	s.client = s.dial("zkr")
	t.Cleanup(func() {
		s.stop()
		require.NoError(t, <-s.done)
		s.http.CloseIdleConnections()
	})
	s.start(change)
	return s
}

// again ends the page and starts another one, which walks when all is there.
func (s *served) again(change func(*Options)) {
	s.t.Helper()
	s.stop()
	require.NoError(s.t, <-s.done)
	s.start(change)
}

// start serves a page on another address.
func (s *served) start(change func(*Options)) {
	t := s.t
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = ln.Addr().String()
	opts := Options{Root: "/", Listener: ln, Stale: time.Minute, Refresh: 100 * time.Millisecond, Requests: 800, Lines: 100}
	if change != nil {
		change(&opts)
	}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() { s.done <- Run(ctx, s.client, opts) }()
}

func (s *served) dial(identity string) *zkrecipes.Client {
	s.t.Helper()
	return recipetest.DialTo(s.t, []string{s.srv.Addr()}, &zkrecipes.Options{Identity: identity})
}

// ask sends a request with these headers, of which Host is one.
func (s *served) ask(method, path, body string, headers ...string) (status int, text string, header http.Header) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addr+path, strings.NewReader(body))
	require.NoError(s.t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	reply, err := s.http.Do(r)
	require.NoError(s.t, err)
	defer reply.Body.Close()
	all, err := io.ReadAll(reply.Body)
	require.NoError(s.t, err)
	return reply.StatusCode, string(all), reply.Header
}

// browser is what a browser has got.
type browser struct {
	t      *testing.T
	body   io.Closer
	lines  *bufio.Scanner
	rows   map[string]row
	line   detail
	status status
	events int
}

func (s *served) browse(line string) *browser {
	s.t.Helper()
	reply, err := s.http.Get("http://" + s.addr + "/events?line=" + line)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, reply.StatusCode)
	require.Equal(s.t, "text/event-stream", reply.Header.Get("Content-Type"))
	require.Equal(s.t, "no", reply.Header.Get("X-Accel-Buffering"))
	s.t.Cleanup(func() { reply.Body.Close() })
	b := &browser{t: s.t, body: reply.Body, lines: bufio.NewScanner(reply.Body), rows: map[string]row{}}
	b.lines.Buffer(nil, 1<<22)
	return b
}

// next takes the next event.
func (b *browser) next() {
	b.t.Helper()
	for b.lines.Scan() {
		data, ok := strings.CutPrefix(b.lines.Text(), "data: ")
		if !ok {
			continue
		}
		b.events++
		var m message
		require.NoError(b.t, json.Unmarshal([]byte(data), &m))
		for _, text := range m.Rows {
			var r row
			require.NoError(b.t, json.Unmarshal(text, &r))
			b.rows[r.Path] = r
		}
		for _, path := range m.Gone {
			delete(b.rows, path)
		}
		if m.Line != nil {
			b.line = detail{}
			require.NoError(b.t, json.Unmarshal(m.Line, &b.line))
		}
		if m.Status != nil {
			b.status = *m.Status
		}
		return
	}
	require.FailNow(b.t, "the stream has ended", "%v", b.lines.Err())
}

// until takes events until f is true.
func (b *browser) until(what string, f func() bool) {
	b.t.Helper()
	for late := time.Now().Add(patience); !f(); {
		require.True(b.t, time.Now().Before(late), "never: %s; rows %+v, line %+v", what, b.rows, b.line)
		b.next()
	}
}

func TestOnlyTheOwnNamesAreAnswered(t *testing.T) {
	s := serveOn(t, func(o *Options) { o.Hosts = []string{"zkr.example"} })
	_, port, err := net.SplitHostPort(s.addr)
	require.NoError(t, err)
	for _, host := range []string{s.addr, "localhost:" + port, "LOCALHOST", "[::1]:" + port, "::1", "zkr.example", "zkr.example:443"} {
		for _, path := range []string{"/", "/page.js", "/page.css"} {
			status, _, _ := s.ask("GET", path, "", "Host", host)
			require.Equal(t, http.StatusOK, status, host)
		}
	}
	for _, host := range []string{"evil.example", "evil.example:" + port, "localhost.evil.example:" + port, "127.0.0.1.evil.example", "127.0.0.2:" + port} {
		for _, path := range []string{"/", "/events", "/evict"} {
			status, text, _ := s.ask("GET", path, "", "Host", host)
			require.Equal(t, http.StatusForbidden, status, host)
			require.Contains(t, text, "unknown host")
		}
	}
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	s := serveOn(t, func(o *Options) { o.Public = "zkr.example" })
	for _, headers := range [][]string{
		{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Origin", "ftp://" + s.addr}, {"Origin", "http://127.0.0.1:1"}, {"Origin", "http://"}, {"Origin", "https://zkr.example:444"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"},
	} {
		status, text, header := s.ask("GET", "/page.js", "", headers...)
		require.Equal(t, http.StatusForbidden, status, headers)
		require.Contains(t, text, "another site")
		require.Empty(t, header.Values("Access-Control-Allow-Origin"))
	}
	for _, headers := range [][]string{
		{"Origin", "http://" + s.addr}, {"Origin", "https://" + s.addr}, // a proxy has ended TLS
		{"Origin", "https://zkr.example"}, {"Origin", "https://ZKR.example:443"}, // and has not passed Host on
		{"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, // a link
	} {
		status, _, _ := s.ask("GET", "/", "", headers...)
		require.Equal(t, http.StatusOK, status, headers)
	}
	status, _, header := s.ask("OPTIONS", "/evict", "", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", tokenHeader)
	require.Equal(t, http.StatusMethodNotAllowed, status)
	require.Empty(t, header.Values("Access-Control-Allow-Headers"))
}

func TestEachAnswerSaysWhatAPageMayDo(t *testing.T) {
	require.NotContains(t, policy, "unsafe")
	s := serveOn(t, nil)
	for path, want := range map[string]int{"/": 200, "/page.js": 200, "/nothing": 404} {
		status, _, header := s.ask("GET", path, "")
		require.Equal(t, want, status, path)
		require.Equal(t, policy, header.Get("Content-Security-Policy"))
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
		require.Equal(t, "DENY", header.Get("X-Frame-Options"))
		require.Equal(t, "no-referrer", header.Get("Referrer-Policy"))
		require.Equal(t, "same-origin", header.Get("Cross-Origin-Resource-Policy"))
	}
	_, html, _ := s.ask("GET", "/", "")
	require.NotRegexp(t, `(?i)<script>|\son[a-z]+=|style=|https?:`, html, "the policy forbids it, and nothing comes from elsewhere")
	_, script, _ := s.ask("GET", "/page.js", "")
	require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(`, script)
}

func TestAnEvictionNeedsTheTokenAndAPost(t *testing.T) {
	s := serveOn(t, func(o *Options) { o.Token, o.Root = secret, "/team" })
	holder, waiter := s.dial("holder"), s.dial("waiter")
	lease := recipetest.LockOn(t, zkrecipes.NewMutex(holder, "/team/l"))
	waits := recipetest.LockLater(t, zkrecipes.NewMutex(waiter, "/team/l"))
	b := s.browse("/team/l")
	b.sees("holder* waiter")
	body := func(path, place string, holder bool) string {
		text, err := json.Marshal(eviction{Path: path, Place: place, Holder: holder})
		require.NoError(t, err)
		return string(text)
	}
	first, second := b.line.Places[0].Place, b.line.Places[1].Place
	evicts := body("/team/l", second, false)
	allowed := []string{"Content-Type", "application/json", tokenHeader, secret}
	for name, c := range map[string]struct {
		method, body string
		headers      []string
		want         int
	}{
		"no token":        {"POST", evicts, allowed[:2], 403},
		"another token":   {"POST", evicts, []string{"Content-Type", "application/json", tokenHeader, secret + "x"}, 403},
		"token elsewhere": {"POST", evicts, []string{"Content-Type", "application/json", "Cookie", "token=" + secret}, 403},
		"get":             {"GET", evicts, allowed, 404},
		"a form":          {"POST", evicts, []string{"Content-Type", "text/plain", tokenHeader, secret}, 415},
		"no JSON":         {"POST", "place", allowed, 400},
		"too long":        {"POST", strings.Repeat(" ", 5000) + evicts, allowed, 400},
		"another origin":  {"POST", evicts, append([]string{"Origin", "http://evil.example"}, allowed...), 403},
		"another name":    {"POST", evicts, append([]string{"Host", "evil.example"}, allowed...), 403},
		"no such place":   {"POST", body("/team/l", "nobody", false), allowed, 404},
		"no such line":    {"POST", body("/team/none", "nobody", false), allowed, 404},
		"above the root":  {"POST", body("/l", "nobody", false), allowed, 403},
		"beside the root": {"POST", body("/team-b/l", "nobody", false), allowed, 403},
		"a holder":        {"POST", body("/team/l", first, false), allowed, 409},
	} {
		status, text, _ := s.ask(c.method, "/evict", c.body, c.headers...)
		require.Equal(t, c.want, status, "%s: %s", name, text)
		require.NotContains(t, text, secret)
		require.Len(t, s.srv.Children("/team/l"), 2, name)
	}
	require.NoError(t, lease.Err())
	status, text, _ := s.ask("POST", "/evict", evicts, allowed...)
	require.Equal(t, 200, status, text)
	require.JSONEq(t, `{"evicted":true}`, text)
	_, err := waits.Wait()
	require.ErrorIs(t, err, zkrecipes.ErrEvicted)
	status, text, _ = s.ask("POST", "/evict", body("/team/l", first, true), allowed...)
	require.Equal(t, 200, status, text)
	require.Eventually(t, func() bool { return lease.Err() != nil }, patience, 2*time.Millisecond)

	s.again(nil)
	for _, token := range []string{"", " ", secret} {
		status, text, _ := s.ask("POST", "/evict", evicts, "Content-Type", "application/json", tokenHeader, token)
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, text, "--allow-actions")
	}
	b = s.browse("")
	b.next()
	require.False(t, b.status.Actions)
}

func TestThereAreOnlySoManyBrowsers(t *testing.T) {
	s := serveOn(t, nil)
	var last *browser
	for range mostBrowsers {
		last = s.browse("")
	}
	status, text, _ := s.ask("GET", "/events", "")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "32 browsers")
	last.body.Close()
	require.Eventually(t, func() bool {
		reply, err := s.http.Get("http://" + s.addr + "/events")
		if err != nil {
			return false
		}
		reply.Body.Close()
		return reply.StatusCode == 200
	}, patience, 10*time.Millisecond, "one has gone")
}

func TestTheEndEndsTheStreams(t *testing.T) {
	s := serveOn(t, nil)
	b := s.browse("")
	b.next()
	s.stop()
	for b.lines.Scan() { // until the end
	}
	require.NoError(t, <-s.done)
	s.done <- nil // for the clean-up
	_, err := net.Dial("tcp", s.addr)
	require.Error(t, err)
}

func TestHealthIsThatOfThePage(t *testing.T) {
	s := serveOn(t, nil)
	require.Eventually(t, func() bool {
		status, text, _ := s.ask("GET", "/healthz", "", "Host", "10.1.2.3:8080")
		return status == http.StatusOK && text == "ok\n"
	}, patience, 10*time.Millisecond)
	w := &web{hub: newHub(s.client, Options{Requests: 80})}
	answer := httptest.NewRecorder()
	w.health(answer, nil)
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Contains(t, answer.Body.String(), "not been read")
	s.srv.Close()
	require.Eventually(t, func() bool {
		status, text, _ := s.ask("GET", "/healthz", "")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "no connection")
	}, patience, 10*time.Millisecond)
}

// pipes is a listener of connections in the process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// The goroutine that writes the answer must not stay.
func TestABrowserThatReadsNothingIsDropped(t *testing.T) {
	opts := Options{Root: "/", Refresh: time.Hour, Requests: 80, Lines: 1}
	inBubble(t, opts, func(*world) {}, func(w *world) {
		ctx, stop := context.WithCancel(w.t.Context())
		done, listener := make(chan error), pipes(make(chan net.Conn))
		opts.Listener = listener
		go func() { done <- Run(ctx, w.hub.client, opts) }()
		browser, conn := net.Pipe()
		listener <- conn
		_, err := io.WriteString(browser, "GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(w.t, err)
		time.Sleep(patience)
		text, err := io.ReadAll(browser)
		require.NoError(w.t, err)
		require.Zero(w.t, len(text))
		stop()
		require.NoError(w.t, <-done)
	})
}

// Everybody who may write a znode chooses an identity, of up to a megabyte.
func TestOnlyAPartOfALongIdentityIsKept(t *testing.T) {
	s := serveOn(t, nil)
	s.lineOf("/l", "first "+strings.Repeat("x", 500_000)+" in 0x7b")
	b := s.browse("/l")
	b.until("a place", func() bool { return len(b.line.Places) == 1 && b.line.Places[0].Read })
	identity := b.line.Places[0].Identity
	require.Less(t, len(identity), 300)
	require.True(t, strings.HasPrefix(identity, "first x") && strings.HasSuffix(identity, "x in 0x7b"), identity)
}

// What is in items may be confidential.
func TestAnItemIsReadOnRequestIfTheOperatorAllowsIt(t *testing.T) {
	s := serveOn(t, func(o *Options) { o.Data, o.Root = true, "/team" })
	q, elsewhere := zkrecipes.NewQueue(s.dial("producer"), "/team/q", nil), zkrecipes.NewQueue(s.dial("producer"), "/q", nil)
	long := strings.Repeat("ä", mostData/2-1) + "€uro"
	ids, err := q.PutAll(t.Context(), []byte("a\u202e\x1b\xff"), []byte(long))
	require.NoError(t, err)
	other, err := elsewhere.Put(t.Context(), []byte("other"))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		path, id string
		want     int
		says     string
	}{
		"escaped":       {"/team/q", string(ids[0]), 200, `{"size":6,"text":"a\\u202e\\x1b\\xff"}`},
		"no such item":  {"/team/q", "none", 404, "no such item"},
		"no such queue": {"/team/none", "none", 404, "no such item"},
		"not below":     {"/q", string(other), 403, "not below /team"},
		"no path":       {"", "none", 403, "not below /team"},
	} {
		status, text, header := s.ask("GET", "/item?path="+c.path+"&id="+c.id, "")
		require.Equal(t, c.want, status, "%s: %s", name, text)
		require.Contains(t, text, c.says, name)
		require.Equal(t, "no-store", header.Get("Cache-Control"))
	}
	_, text, _ := s.ask("GET", "/item?path=/team/q&id="+string(ids[1]), "")
	var got itemData
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Equal(t, itemData{Size: len(long), Text: strings.Repeat("ä", mostData/2-1), More: 6}, got, "no letter is cut")
	status, _, _ := s.ask("GET", "/item?path=/team/q&id="+string(ids[0]), "", "Origin", "http://evil.example")
	require.Equal(t, 403, status)

	s.again(nil)
	status, text, _ = s.ask("GET", "/item?path=/team/q&id="+string(ids[0]), "")
	require.Equal(t, 403, status)
	require.Contains(t, text, "--show-data")
	b := s.browse("/team/q")
	b.until("items", func() bool { return len(b.line.Items) == 2 })
	require.False(t, b.status.Data)
}
