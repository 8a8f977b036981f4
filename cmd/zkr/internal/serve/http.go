//go:build unix

package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

//go:embed page
var page embed.FS

const (
	// tokenHeader is the header in which an action has the token. A page of another origin
	// cannot send it: browsers ask the server first, which does not allow it.
	tokenHeader  = "X-Zkr-Token"
	mostBrowsers = 32
	mostBody     = 1 << 12 // bytes of a request
	costOfItem   = 5       // requests to the servers, or about that
	statusEvery  = 5 * time.Second
	requestTime  = 15 * time.Second // for what the servers are asked to answer one
	writeTime    = 10 * time.Second
)

// policy lets the page load its own files and nothing else, and run no script within HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// web answers browsers.
type web struct {
	*hub
	hosts []string // names under which browsers may ask
	token [sha256.Size]byte
}

// newHandler returns the handler of all requests.
func newHandler(h *hub) http.Handler {
	w := &web{h, append([]string{"localhost", "127.0.0.1", "::1"}, h.opts.Hosts...), sha256.Sum256([]byte(h.opts.Token))}
	files, _ := fs.Sub(page, "page") // which is embedded
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /healthz", w.health)
	mux.HandleFunc("GET /events", w.events)
	mux.HandleFunc("GET /find", asJSON(w.find))
	mux.HandleFunc("GET /item", asJSON(w.item))
	mux.HandleFunc("POST /evict", asJSON(w.evict))
	return w.guard(mux)
}

// asJSON answers with what a function returns, or why it refuses.
func asJSON(answer func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		body, err := answer(r)
		if err != nil {
			http.Error(rw, view.Clean(err.Error()), statusOf(err))
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(body)
	}
}

// refusal is an error with the status of the answer.
type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return r.text }

// guard refuses requests that a page of another site may have made, and sets the headers of all
// answers.
func (w *web) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		header := rw.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		isProbe := r.URL.Path == "/healthz"
		switch {
		case !isProbe && !w.isOwnHost(r.Host):
			// A name that an attacker resolves to this address would make his page one of this
			// origin.
			http.Error(rw, "unknown host: use localhost, or --host", http.StatusForbidden)
		case !isProbe && !w.isSameSite(r):
			http.Error(rw, "request of another site", http.StatusForbidden)
		default:
			next.ServeHTTP(rw, r)
		}
	})
}

func (w *web) isOwnHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return slices.ContainsFunc(w.hosts, func(own string) bool { return strings.EqualFold(own, name) })
}

// isSameSite reports whether neither Origin nor Sec-Fetch-Site say that the request comes from a
// page of another origin. Links to the page may.
//
// The scheme of Origin is not compared: a proxy that ends TLS asks by HTTP for a page of https. One
// that does not pass Host on makes the page's origin another one, which is Options.Public.
func (w *web) isSameSite(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && !isOrigin(origin, r.Host) && !isOrigin(origin, w.opts.Public) {
		return false
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin" || site == "none" ||
		r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

// isOrigin reports whether an Origin is that of a page at a host, with a port or the scheme's own.
func isOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || host == "" {
		return false
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return port != "" && strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(host, port))
}

// health is for those who watch over zkr: 200 if it has read the recipes and is connected. Any name
// will do, since a probe may use an address that nobody else does.
func (w *web) health(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	walked := w.walked
	w.mu.Unlock()
	switch {
	case !w.client.Status().Connected:
		http.Error(rw, "no connection to the servers", http.StatusServiceUnavailable)
	case walked.IsZero():
		http.Error(rw, "the recipes have not been read yet", http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(rw, "ok\n")
	}
}

// find returns the paths of the recipes in which an identity or a session has the text.
func (w *web) find(r *http.Request) (any, error) {
	text := strings.ToLower(r.URL.Query().Get("text"))
	paths := []string{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, f := range w.lines {
		if slices.ContainsFunc(f.places, func(p *place) bool {
			return strings.Contains(strings.ToLower(p.Identity), text) || strings.Contains(sessionText(p.Session), text)
		}) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// mostData is how much of an item's data the page shows, in bytes.
const mostData = 1 << 12

// itemData is what an item says, as far as the page shows it.
type itemData struct {
	Size int    `json:"size"` // in bytes
	Text string `json:"text"` // printable
	More int    `json:"more,omitempty"`
}

// item reads the item ?id= of the queue ?path=, each time that a browser asks for it.
func (w *web) item(r *http.Request) (any, error) {
	path, id := r.URL.Query().Get("path"), r.URL.Query().Get("id")
	if !w.opts.Data {
		return nil, refusal{http.StatusForbidden, "what is in items is not shown: start zkr serve with --show-data"}
	}
	if err := w.checkPath(path); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	if err := w.pay(ctx, w.looks, costOfItem); err != nil {
		return nil, err
	}
	e, err := zkrecipes.NewQueue(w.client, path, nil).Find(ctx, zkrecipes.ItemID(id))
	if err != nil {
		return nil, err
	}
	n := min(len(e.Data), mostData)
	for n < len(e.Data) && n > mostData-utf8.UTFMax && !utf8.RuneStart(e.Data[n]) {
		n--
	}
	return itemData{len(e.Data), view.Printable(e.Data[:n]), len(e.Data) - n}, nil
}

// events sends what changes in the tree, the graph and the line ?line= until the browser goes.
func (w *web) events(rw http.ResponseWriter, r *http.Request) {
	shown := r.URL.Query().Get("line")
	hide, ok := w.show(shown)
	if !ok {
		http.Error(rw, fmt.Sprintf("%d browsers are here already", mostBrowsers), http.StatusServiceUnavailable)
		return
	}
	defer hide()
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("X-Accel-Buffering", "no") // nginx as the proxy would hold events back
	out := http.NewResponseController(rw)
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	edition, has, withStatus := 0, map[string]bool{}, true
	for {
		m, now, next := w.since(edition, has, shown, withStatus)
		edition, withStatus = now, false
		text, err := json.Marshal(m)
		if err != nil {
			return
		}
		_ = out.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := fmt.Fprintf(rw, "data: %s\n\n", text); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-next:
		case <-tick.C:
			withStatus = true
		case <-r.Context().Done():
			return
		}
	}
}

// eviction is what the page asks for.
type eviction struct {
	Path   string `json:"path"`
	Place  string `json:"place"`
	Holder bool   `json:"holder"`
}

// evict evicts a place. It needs the token.
func (w *web) evict(r *http.Request) (any, error) {
	given := sha256.Sum256([]byte(r.Header.Get(tokenHeader)))
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var e eviction
	switch {
	case w.opts.Token == "":
		return nil, refusal{http.StatusForbidden, "actions are not allowed: start zkr serve with --allow-actions"}
	case subtle.ConstantTimeCompare(given[:], w.token[:]) != 1:
		return nil, refusal{http.StatusForbidden, "wrong token"}
	case kind != "application/json":
		return nil, refusal{http.StatusUnsupportedMediaType, "the body must be JSON"}
	case json.NewDecoder(io.LimitReader(r.Body, mostBody)).Decode(&e) != nil:
		return nil, refusal{http.StatusBadRequest, "the body must be JSON"}
	}
	if err := w.checkPath(e.Path); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	evicted, err := w.evictPlace(ctx, e)
	return map[string]bool{"evicted": evicted}, err
}

// checkPath refuses a path that is neither the root nor below it.
func (w *web) checkPath(path string) error {
	if path == w.opts.Root || strings.HasPrefix(path, strings.TrimSuffix(w.opts.Root, "/")+"/") {
		return nil
	}
	return refusal{http.StatusForbidden, "the path is not below " + w.opts.Root}
}

// evictPlace reads the line anew, and evicts the place of that name.
func (w *web) evictPlace(ctx context.Context, e eviction) (bool, error) {
	u, err := view.Find(ctx, w.client, e.Path)
	if err == nil {
		err = view.Line{Recipe: u.Recipe}.CheckEvict() // before all items of a queue are read
	}
	if err != nil {
		return false, err
	}
	l, err := view.Read(ctx, w.client, u)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(l.Places, func(p view.Place) bool { return p.Name == e.Place })
	if i < 0 {
		return false, refusal{http.StatusNotFound, "there is no such place any more"}
	}
	return w.client.Evict(ctx, l.Places[i].Contender, &zkrecipes.EvictOptions{Holder: e.Holder})
}

func statusOf(err error) int {
	var r refusal
	switch {
	case errors.As(err, &r):
		return r.status
	case errors.Is(err, zkrecipes.ErrItemGone), errors.Is(err, zkrecipes.ErrUnused), errors.Is(err, zk.ErrNoNode):
		return http.StatusNotFound
	case errors.Is(err, zkrecipes.ErrHolder):
		return http.StatusConflict
	case errors.Is(err, zk.ErrNoAuth):
		return http.StatusForbidden
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
