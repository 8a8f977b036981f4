package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// HandlerOptions configures a Handler. nil is the same as the zero value.
type HandlerOptions struct {
	// Optional lets requests through that have no [Header]: for a service whose callers are not
	// all changed yet. Nothing fences them.
	Optional bool
	// Names returns the names of the fences that the request must have a token for, which
	// depends on what it wants to change. Without it, a request with a token for another lock,
	// or of a client with another Options.Prefix, passes. nil: whichever the request has.
	Names func(*http.Request) []string
}

// Handler returns a handler that asks the guard for each request, with the tokens of its [Header],
// and calls next for those that it admits. The context of next's request has the tokens, for
// [FromContext], and ends early if the guard says so: with [Memory], when a later holder comes.
// Then next's reads of the request's body fail, too, so a client that is suspended in the middle
// of its request does not keep the next holder waiting. It gets no response, as after
// http.ErrAbortHandler. If a handler around this one wraps the ResponseWriter, that needs a method
// Unwrap, see http.ResponseController: otherwise the reads go on.
//
// Whether an earlier holder's next may still run when a later one is admitted depends on the
// guard: with [Memory] not; with [SQL] it may, so write with SQL.Do. What goes on after next has
// returned is not fenced, such as the handler of an http.TimeoutHandler.
//
// Others are refused, with a problem body (RFC 9457) and with [Header] in the response:
//
//   - 412 Precondition Failed: a later holder came first. The token is a condition of the request,
//     which is false. Unlike after a 409, no change of the request can make it succeed.
//   - 428 Precondition Required: it has no token, and HandlerOptions.Optional is not set, or none
//     for one of HandlerOptions.Names.
//   - 400 Bad Request: the header is malformed.
//   - 503 Service Unavailable: the guard cannot know, such as a Memory after a restart. The same
//     request may succeed later.
func Handler(g Guard, next http.Handler, opts *HandlerOptions) http.Handler {
	if opts == nil {
		opts = &HandlerOptions{}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if opts.Optional && len(r.Header.Values(Header)) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		work, tokens, done, err := opts.admit(g, r)
		if err != nil {
			Refuse(w, err)
			return
		}
		defer done()
		ctx := r.Context()
		r = r.WithContext(NewContext(work, tokens))
		up := &upload{ReadCloser: r.Body}
		if r.Body != http.NoBody {
			r.Body = up
		}
		over, fenced := make(chan struct{}), false
		stop := context.AfterFunc(work, func() {
			defer close(over)
			fenced = ctx.Err() == nil
			up.cut(w)
		})
		defer stop()
		next.ServeHTTP(w, r)
		if !stop() {
			<-over
			if up.isCut && fenced { // else the response is sent: the service itself has ended the context
				panic(http.ErrAbortHandler) // the connection is in the middle of a request
			}
		}
	})
}

// upload is the body of a request.
type upload struct {
	io.ReadCloser
	ended atomic.Bool // read to its end
	isCut bool
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil {
		u.ended.Store(true)
	}
	return n, err
}

// cut makes reads of the body fail. Once it has ended, the server itself reads from the connection,
// for the next request, and must not fail.
func (u *upload) cut(w http.ResponseWriter) {
	if u.ReadCloser == http.NoBody || u.ended.Load() {
		return
	}
	u.isCut = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) == nil
}

// admit asks the guard for the tokens of the request.
func (o *HandlerOptions) admit(g Guard, r *http.Request) (work context.Context, tokens Tokens, done func(), err error) {
	values := r.Header.Values(Header)
	if len(values) == 0 {
		return nil, nil, nil, fmt.Errorf("fence: %w: no %s", ErrNoToken, Header)
	}
	if tokens, err = Parse(strings.Join(values, ",")); err != nil {
		return nil, nil, nil, err
	}
	if o.Names != nil {
		if err := tokens.Require(o.Names(r)...); err != nil {
			return nil, nil, nil, err
		}
	}
	work, done, err = g.Admit(r.Context(), tokens)
	return work, tokens, done, err
}

// A refusal is how an error of a guard appears in a response.
type refusal struct {
	err    error // nil: any other
	status int
	reason string // the response's Header
	title  string
}

var refusals = []refusal{
	{ErrFenced, http.StatusPreconditionFailed, "fenced", "A later holder of the lock came first"},
	{ErrMalformed, http.StatusBadRequest, "malformed", "The fencing token is malformed"},
	{ErrNoToken, http.StatusPreconditionRequired, "missing", "A fencing token is required"},
	{ErrUnknown, http.StatusServiceUnavailable, "unknown", "The guard does not know the lowest token"},
	{ErrUncertain, http.StatusInternalServerError, "uncertain", "The write may have been committed"},
	{nil, http.StatusServiceUnavailable, "unavailable", "The guard cannot check the token"},
}

// Refuse writes the response for an error of a guard: as Handler does, for a handler whose
// [SQL.Do] has failed. For any error that is not of this package it writes status 503, without
// the error's text.
func Refuse(w http.ResponseWriter, err error) {
	for _, r := range refusals {
		if r.err == nil || errors.Is(err, r.err) {
			r.write(w, err)
			return
		}
	}
}

func (r refusal) write(w http.ResponseWriter, err error) {
	problem := struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{Type: "https://github.com/zkrecipes/zkrecipes/blob/main/docs/fencing.md#http", Title: r.title, Status: r.status}
	switch {
	case r.status == http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case r.status < http.StatusInternalServerError: // its text is of the client's request, and no database's
		problem.Detail = err.Error()
	}
	body, err := json.Marshal(problem)
	if err != nil {
		panic(err) // cannot happen: strings and a number
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set(Header, r.reason)
	w.WriteHeader(r.status)
	w.Write(body) // an error: the client has gone
}

// ResponseError returns an error if a guard has refused the request: ErrFenced, ErrNoToken or
// ErrUnknown as the guard returned it, or another one. ErrUncertain is what Refuse was given: the write
// may have been done. It returns nil for all other responses,
// whatever their status. It does not read the body.
func ResponseError(resp *http.Response) error {
	reason := resp.Header.Get(Header)
	for _, r := range refusals {
		if reason == r.reason && resp.StatusCode == r.status {
			if r.err == nil {
				return fmt.Errorf("fence: %s", resp.Status)
			}
			return fmt.Errorf("fence: %s: %w", resp.Status, r.err)
		}
	}
	return nil
}

// Transport is a RoundTripper that writes the tokens of the holder in the request's context to its
// [Header]; see [NewContext]. It sends a request without a holder as it is.
//
// It sends a request whose holder has lost the lock, too: give the request a context of the lease,
// which ends when the loss is known. The guard is what refuses.
type Transport struct {
	Base http.RoundTripper // http.DefaultTransport if nil
}

// RoundTrip sends the request. It returns ErrNoToken if the holder has no fencing token.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	h, ok := FromContext(r.Context())
	if !ok {
		return base.RoundTrip(r)
	}
	value, err := Format(h)
	if err != nil {
		if r.Body != nil {
			r.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set(Header, value)
	return base.RoundTrip(r)
}
