package pagetest

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const patience = time.Minute

var pictures = flag.Bool("pictures", false, "write pictures of the page to docs/pictures")

// zkr is the program, and browser what all tests share of one.
var (
	zkr     string
	browser context.Context
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pagetest")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	zkr = filepath.Join(dir, "zkr")
	build := exec.Command("go", "build", "-o", zkr, ".")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("go build: %v\n%s", err, out))
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.WindowSize(1280, 860))
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // chromium has no sandbox for root
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	defer stop()
	browser, stop = chromedp.NewContext(ctx)
	defer stop()
	if err := chromedp.Do(browser); err != nil {
		panic(fmt.Sprintf("%v (scripts/setup-chromium.sh installs chromium)", err))
	}
	return m.Run()
}

// serving is a zkr serve.
type serving struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
}

func serve(t *testing.T, srv *zktest.Server, args ...string) *serving {
	t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--refresh", "300ms"}, args...)
	s := &serving{t: t, cmd: exec.Command(zkr, args...)}
	s.cmd.Env = []string{"HOME=/nonexistent", "ZKR_SERVERS=" + srv.Addr()}
	stderr, err := s.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	for s.url == "" && lines.Scan() {
		_, s.url, _ = strings.Cut(lines.Text(), "the page is at ")
	}
	require.NotEmpty(t, s.url)
	go func() { // ends with zkr
		for lines.Scan() {
		}
	}()
	return s
}

// ends ends zkr by a signal while browsers are connected, and returns its exit status.
func (s *serving) ends(sig syscall.Signal) int {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig))
	late := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// tab is a tab of the browser that shows the page.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string // what the browser's console says
}

// open opens a page. What the browser complains about, such as a script that the policy forbids,
// fails the test in the end.
func open(t *testing.T, url string) *tab {
	t.Helper()
	p := &tab{t: t}
	ctx, stop := chromedp.NewContext(browser)
	t.Cleanup(stop)
	p.ctx, stop = context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(stop)
	require.NoError(t, chromedp.Listen(p.ctx, func(event any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.faults = append(p.faults, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if !strings.Contains(e.Entry.Text, "ERR_NETWORK_CHANGED") { // another program has made an interface
				p.faults = append(p.faults, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
			}
		}
	}))
	p.run(chromedp.EmulateViewport(1280, 860), chromedp.Navigate(url))
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Empty(t, p.faults)
	})
	return p
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, actions...))
}

// is returns the value of a JavaScript expression.
func is[A any](p *tab, expression string) A {
	p.t.Helper()
	a, err := chromedp.Run(p.ctx, chromedp.Evaluate[A](expression))
	require.NoError(p.t, err, expression)
	return a
}

// sees waits until the JavaScript expression has that value.
func sees[A any](p *tab, want A, expression string) {
	p.t.Helper()
	var got A
	deadline := time.Now().Add(patience)
	for {
		got = is[A](p, expression)
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		require.True(p.t, time.Now().Before(deadline), "%s is %v, not %v\n%s", expression, got, want, is[string](p, "document.body.innerText"))
		time.Sleep(20 * time.Millisecond)
	}
}

// texts is an expression for the texts of all elements.
func texts(selector string) string {
	return fmt.Sprintf("[...document.querySelectorAll(%q)].map((e) => e.textContent)", selector)
}

// colours has the browser prefer dark or light colours.
func (p *tab) colours(scheme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(p.t, err)
}

// picture takes a picture of the window, in dark or light colours.
func (p *tab) picture(name, scheme string) {
	p.t.Helper()
	p.colours(scheme)
	p.run(chromedp.Sleep(700 * time.Millisecond)) // until nothing fades any more
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join("..", "..", "..", "docs", "pictures", name), png, 0o644))
}

func dial(t *testing.T, srv *zktest.Server, identity string) *zkrecipes.Client {
	t.Helper()
	return recipetest.DialTo(t, []string{srv.Addr()}, &zkrecipes.Options{Identity: identity})
}

func lock(t *testing.T, c *zkrecipes.Client, path string) *zkrecipes.Lease {
	t.Helper()
	return recipetest.LockOn(t, zkrecipes.NewMutex(c, path))
}

func startLock(t *testing.T, c *zkrecipes.Client, path string) *harness.Call[*zkrecipes.Lease] {
	return recipetest.LockLater(t, zkrecipes.NewMutex(c, path))
}

// await waits until so many places stand in the line.
func await(t *testing.T, srv *zktest.Server, path string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(srv.Children(path)) == n }, patience, 2*time.Millisecond)
}

// scene has others use recipes until the test ends. Each call has a process of its own.
func scene(t *testing.T, srv *zktest.Server) {
	t.Helper()
	ctx := t.Context()
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	for i := range 5 {
		api, apps := dial(t, srv, fmt.Sprintf("api-%d:%d", i+1, 701+90*i)), dial(t, srv, fmt.Sprintf("node-%d:1", i+1))
		all.Go(func() { _, _ = zkrecipes.NewSemaphore(api, "/limits/api", 3).Acquire(ctx) })
		all.Go(func() {
			_, _ = zkrecipes.NewElection(apps, "/apps/scheduler").Campaign(ctx, fmt.Appendf(nil, "node-%d:8080", i+1))
		})
	}
	for i := range 4 {
		takeTurns(t, &all, dial(t, srv, fmt.Sprintf("cache-%d:1", i+1)), "/locks/cache", 200*time.Millisecond)
	}
	lock(t, dial(t, srv, "report-1:4100"), "/locks/reports")
	for i := range 3 {
		startLock(t, dial(t, srv, fmt.Sprintf("report-%d:%d", i+2, 4137+37*i)), "/locks/reports")
	}
	mailer := dial(t, srv, "mailer-1:77")
	q := zkrecipes.NewQueue(mailer, "/jobs/mail", nil)
	for range 8 {
		_, err := q.Put(ctx, []byte("mail"))
		require.NoError(t, err)
	}
	_, err := q.Take(ctx)
	require.NoError(t, err)
	_, err = q.DeadLetters().Put(ctx, []byte("mail"))
	require.NoError(t, err)
}

// fullScene is scene, with a deadlock, a long line, a group, values, names that are long, and so many
// locks that nobody uses. leave has the group's last member leave.
func fullScene(t *testing.T, srv *zktest.Server, locks int) (leave func()) {
	t.Helper()
	scene(t, srv)
	ctx := t.Context()
	a, b, c := dial(t, srv, "billing:1201"), dial(t, srv, "shipping:88"), dial(t, srv, "returns:4")
	for i, x := range []*zkrecipes.Client{a, b, c} {
		lock(t, x, []string{"/locks/invoices", "/locks/parcels", "/locks/stock"}[i])
	}
	startLock(t, a, "/locks/parcels")
	startLock(t, b, "/locks/stock")
	startLock(t, c, "/locks/invoices")
	lock(t, dial(t, srv, "ledger-writer-7f9c6d5b4-x2k9q.production.svc.cluster.local:31337"), ledger)
	for i := range 30 {
		startLock(t, dial(t, srv, fmt.Sprintf("ledger-writer-7f9c6d5b4-%05d.production.svc.cluster.local:31337", i)), ledger)
	}
	for i := range 4 {
		m, err := zkrecipes.NewGroup(dial(t, srv, fmt.Sprintf("search-%d", i)), "/services/search").Join(ctx, fmt.Appendf(nil, "10.0.0.%d:9200", i), zkrecipes.MemberID(fmt.Sprintf("search-%d", i)))
		require.NoError(t, err)
		leave = func() { require.NoError(t, m.Leave()) }
	}
	_, err := zkrecipes.NewCounter(a, "/counters/invoices").Add(ctx, 4711)
	require.NoError(t, err)
	require.NoError(t, zkrecipes.NewGate(a, "/gates/maintenance").Shut(ctx))
	recipetest.MakeLocks(t, a, "/orders", locks)
	return leave
}

// takeTurns has a process take a lock again and again, until the test ends.
func takeTurns(t *testing.T, all *sync.WaitGroup, c *zkrecipes.Client, path string, holds time.Duration) {
	ctx := t.Context()
	all.Go(func() {
		for ctx.Err() == nil {
			_ = zkrecipes.NewMutex(c, path).Do(ctx, func(ctx context.Context, _ *zkrecipes.Lease) error {
				select {
				case <-time.After(holds):
				case <-ctx.Done():
				}
				return nil
			})
		}
	})
}
