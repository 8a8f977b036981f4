package zkrecipes_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Credentials, session passwords and private keys must not be in anything that is
// printed.

// printed is all that was logged, traced or printed.
type printed struct{ recipetest.Records }

// add prints a value in all ways.
func (p *printed) add(v any) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(p, verb+"\n", v)
	}
	if text, err := json.Marshal(v); err == nil {
		fmt.Fprintf(p, "%s\n", text)
	}
	for _, l := range []*slog.Logger{slog.New(slog.NewTextHandler(p, nil)), slog.New(slog.NewJSONHandler(p, nil))} {
		l.Info("a value", "value", v)
	}
}

// options returns Options with a Logger and a Trace that write to p.
func (p *printed) options(o zkrecipes.Options) *zkrecipes.Options {
	o.Logger = slog.New(slog.NewTextHandler(p, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Trace = &zkrecipes.Trace{
		AcquireStart: func(_ context.Context, e zkrecipes.TraceAcquireStart) context.Context { p.add(e); return nil },
		Queued:       func(_ context.Context, e zkrecipes.TraceQueued) { p.add(e) },
		AcquireEnd:   func(_ context.Context, e zkrecipes.TraceAcquireEnd) { p.add(e) },
		HoldStart:    func(_ context.Context, e zkrecipes.TraceHoldStart) { p.add(e) },
		HoldEnd:      func(e zkrecipes.TraceHoldEnd) { p.add(e) },
		Session:      func(e zkrecipes.TraceSession) { p.add(e) },
	}
	return &o
}

// lacks requires that a secret was not printed in any form.
func (p *printed) lacks(t *testing.T, what string, secret []byte) {
	t.Helper()
	require.NotEmpty(t, secret, what)
	text := strings.ToLower(p.String())
	for _, form := range []string{
		string(secret), hex.EncodeToString(secret),
		base64.StdEncoding.EncodeToString(secret), base64.RawURLEncoding.EncodeToString(secret),
		strings.Trim(fmt.Sprint(secret), "[]"), fmt.Sprintf("% x", secret), strings.Trim(fmt.Sprintf("%#v", secret), "[]byte{}"),
	} {
		form = strings.ToLower(form)
		if at := strings.Index(text, form); at >= 0 {
			require.Fail(t, what+" was printed", "...%s...", text[max(0, at-200):min(len(text), at+len(form)+100)])
		}
	}
}

// sniff records the password with which a client resumes the session.
type sniff struct {
	mu       sync.Mutex
	password []byte
}

func (s *sniff) frame(_ *harness.Tap, op string, frame []byte) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const passwordAt = 4 + 4 + 8 + 4 + 8 + 4 // behind the frame's and its own length, version, zxid, timeout, id
	if op == "connect" && len(frame) >= passwordAt+16 {
		s.password = bytes.Clone(frame[passwordAt : passwordAt+16])
	}
	return false, nil
}

func TestNoSecretIsPrinted(t *testing.T) {
	p, seen, ca := new(printed), new(sniff), harness.NewCA(t)
	ctx := harness.Within(t, 2*time.Minute)
	proxy := harness.NewProxy(t, harness.Server())
	taps := harness.NewTaps(proxy.Addr())
	taps.OnWrite(seen.frame)
	secrets := map[string][]byte{
		"password": []byte("tops3cret"), "refused credential": []byte("r3fused-token"), "stranger's password": []byte("m4llory"),
	}
	alice := p.options(zkrecipes.Options{
		Auth:   []zkrecipes.Auth{{Scheme: "digest", Data: append([]byte("alice:"), secrets["password"]...)}},
		Dialer: taps.Dial,
	})
	key := ca.Issue(t, "alice")
	once, dialer := recipetest.OneAttempt(ctx, harness.NewTaps(ca.Terminator(t, "zk.test", harness.Server(), nil)).Dial)
	overTLS := p.options(zkrecipes.Options{
		Auth: alice.Auth, TLS: &tls.Config{Certificates: []tls.Certificate{key}, RootCAs: harness.NewCA(t).Pool()},
		Dialer: dialer,
	})
	refused := p.options(zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "unknown", Data: secrets["refused credential"]}}, ACL: zk.WorldACL(zk.PermAll)})

	for _, opts := range []*zkrecipes.Options{alice, overTLS, refused} {
		p.add(opts)
		p.add(*opts)
		p.add(opts.Auth)
		p.add(opts.Auth[0])
	}
	failed := func(err error, want any) {
		t.Helper()
		require.ErrorAs(t, err, want)
		p.add(err)
	}
	var e *zkrecipes.Error
	_, err := zkrecipes.Dial(ctx, harness.Servers(), refused)
	require.ErrorIs(t, err, zk.ErrAuthFailed)
	failed(err, &e)
	var wrong *tls.CertificateVerificationError
	_, err = zkrecipes.Dial(once, []string{"zk.test"}, overTLS)
	failed(err, &wrong)

	c := recipetest.DialTo(t, []string{"zk.test"}, alice)
	path := recipetest.OwnPath(t)
	l := recipetest.LockOn(t, zkrecipes.NewMutex(c, path))
	before := c.Status().Since
	proxy.Drop()
	harness.Eventually(t, "another connection", func() bool { s := c.Status(); return s.Connected && s.Since.After(before) })
	mallory := recipetest.Dial(t, p.options(zkrecipes.Options{Auth: []zkrecipes.Auth{{Scheme: "digest", Data: append([]byte("mallory:"), secrets["stranger's password"]...)}}}))
	_, err = zkrecipes.NewMutex(mallory, path).Lock(ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	failed(err, &e)
	q := zkrecipes.NewQueue(c, path+"-queue", nil)
	recipetest.PutOn(t, q, "x")
	it := recipetest.TakeOn(t, q)
	p.add(c)
	p.add(struct{ Client *zkrecipes.Client }{mallory})
	recipetest.AckOn(t, it)
	require.NoError(t, l.Release())
	b := zkrecipes.NewBarrier(c, path+"-barrier", 2)
	waits := recipetest.WaitLater(t, b)
	harness.Eventually(t, "a member", func() bool {
		members, err := b.Contenders(ctx)
		return err == nil && len(members) == 1
	})
	failed(recipetest.Cancels(t, waits), &e)
	require.NoError(t, c.Close())
	_, err = zkrecipes.NewMutex(c, path).Lock(ctx)
	failed(err, &e)
	harness.Eventually(t, "the last trace", func() bool {
		return !zkrecipes.HooksRun(c.Core())
	})
	// Printing does not take the locks of these, so nothing may go on.
	for _, v := range []any{c, l, it, q, zkrecipes.NewMutex(c, path), zkrecipes.NewRWLock(c, path), zkrecipes.NewGate(c, path), zkrecipes.NewBarrier(c, path, 2), zkrecipes.NewDoubleBarrier(c, path, 2)} {
		p.add(v)
	}

	for what, secret := range secrets {
		p.lacks(t, what, secret)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	p.lacks(t, "the session's password", seen.password)
	private, err := key.PrivateKey.(*ecdsa.PrivateKey).Bytes()
	require.NoError(t, err)
	p.lacks(t, "the private key", private)
}

func TestNoSecretOfSASLIsPrinted(t *testing.T) {
	recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
		const right, wrong = "r1ght-password", "wr0ng-guess"
		p := new(printed)
		alice := p.options(zkrecipes.Options{SASL: zkrecipes.SASLDigest("alice", right)})
		guess := p.options(zkrecipes.Options{SASL: zkrecipes.SASLDigest("alice", wrong), Dialer: w.Srv.DialContext})
		for _, opts := range []*zkrecipes.Options{alice, guess} {
			p.add(opts)
			p.add(*opts)
			p.add(opts.SASL)
			p.add(*opts.SASL)
		}
		exchange, err := alice.SASL.Exchange(t.Context(), zkrecipes.SASLServer{})
		require.NoError(t, err)
		_, _, err = exchange.Step([]byte(`nonce="x"`))
		p.add(err)
		_, err = zkrecipes.Dial(t.Context(), []string{w.Srv.Addr()}, guess)
		p.add(err)
		c := w.Client(alice)
		l := recipetest.LockOn(t, zkrecipes.NewMutex(c, w.Path))
		w.Plan.Add(zktest.Fault{Do: zktest.Answer, Op: "sasl", Skip: 1, Code: jute.ErrAuthFailed, Times: 3})
		require.True(t, w.Srv.Disconnect(recipetest.SessionID(c)))
		harness.Eventually(t, "the session is resumed", func() bool { return w.Plan.Fired()["answer before"] == 3 && c.Status().Connected })
		p.add(c)
		p.add(l)
		require.NoError(t, l.Release())
		require.NoError(t, c.Close())
		synctest.Wait()
		p.add(c)
		require.Contains(t, p.String(), "refused SASL")
		p.lacks(t, "the password", []byte(right))
		p.lacks(t, "the wrong password", []byte(wrong))
	}, zktest.SASL(map[string]string{"alice": "r1ght-password"}), zktest.RequireSASL())
}
