package pagetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const (
	holders = ".card.holds:not(.left) .who"
	waiters = ".card:not(.holds):not(.left) .who"
)

func TestAHandOverIsSeen(t *testing.T) {
	srv := zktest.NewServer(t)
	scene(t, srv)
	first, second, third := dial(t, srv, "app-1:311"), dial(t, srv, "app-2:87"), dial(t, srv, "app-3:4120")
	held := lock(t, first, "/locks/orders")
	p := open(t, serve(t, srv).url)
	sees(p, []string{"/apps/", "/jobs/", "/limits/", "/locks/"}, texts("#tree tr.directory"))
	p.run(chromedp.Click(chromedp.CSS(`tr[data-path="/locks/orders"]`)))
	sees(p, []string{"app-1:311"}, texts(holders))
	sees(p, "≤", `document.querySelector(".card.holds .does").children[1].textContent.slice(0, 1)`)
	next := startLock(t, second, "/locks/orders")
	sees(p, []string{"app-2:87"}, texts(waiters))
	last := startLock(t, third, "/locks/orders")
	sees(p, []string{"app-2:87", "app-3:4120"}, texts(waiters))
	sees(p, []string{"1", "2"}, `[...document.querySelectorAll('tr[data-path="/locks/orders"] td.number')].slice(0, 2).map((e) => e.textContent)`)

	require.NoError(t, held.Release())
	sees(p, []string{"app-2:87"}, texts(holders))
	sees(p, []string{"app-3:4120"}, texts(waiters))
	sees(p, false, `document.querySelector(".card.holds .does").textContent.includes("≤")`) // it was seen to get it
	sees(p, true, `document.querySelectorAll("#chart1 rect").length > 0`)
	last.Cancel(nil)
	sees(p, []string{}, texts(waiters))
	require.NoError(t, next.Get().Release())
	sees(p, []string{}, texts(holders))
	if *pictures {
		var all sync.WaitGroup
		t.Cleanup(all.Wait)
		for i := range 9 {
			takeTurns(t, &all, dial(t, srv, fmt.Sprintf("app-%d:%d", i+1, 311+i*i*7)), "/locks/orders", time.Duration(1+i%4)*time.Second)
		}
		time.Sleep(2 * time.Minute)
		p.picture("serve.png", "light")
	}
}

// Each of two processes holds a lock and waits for the other's.
func TestADeadlockOfTwoProcessesIsSeen(t *testing.T) {
	srv := zktest.NewServer(t)
	scene(t, srv)
	a, b := dial(t, srv, "billing:1201"), dial(t, srv, "shipping:88")
	lock(t, a, "/locks/invoices")
	parcels := lock(t, b, "/locks/parcels")
	p := open(t, serve(t, srv, "/locks").url+"#/locks/parcels")
	sees(p, []string{"shipping:88"}, texts(holders))
	waits := startLock(t, a, "/locks/parcels")
	sees(p, []string{"billing:1201"}, texts(waiters))
	require.Empty(t, is[[]string](p, texts(".deadlock")), "one of them can go on")
	other := startLock(t, b, "/locks/invoices")
	sees(p, 1, `document.querySelectorAll("#deadlocks .deadlock").length`)
	require.Regexp(t, `^DEADLOCK2 sessions wait for each other at /locks/(invoices|parcels), /locks/(invoices|parcels)$`, is[[]string](p, texts(".deadlock"))[0])
	require.Regexp(t, ` waits for /locks/(invoices|parcels), which .* holds; .* waits for /locks/(invoices|parcels), which .* holds`,
		is[string](p, `document.querySelector("#troubles li.stuck").textContent`))
	sees(p, 2, `document.querySelectorAll("#graph path.edge.red").length`)
	sees(p, 2, `document.querySelectorAll("#graph g.node.red").length`)
	sees(p, 2, `document.querySelectorAll("#tree tr.stuck").length`)
	sees(p, 2, `document.querySelectorAll(".card.stuck").length`)
	sees(p, true, `document.title.startsWith("DEADLOCK")`)
	sees(p, true, `/^deadlock for \d+s$/.test(document.querySelector("#troubles li:first-child.stuck .what").textContent)`)
	sees(p, []string{"/locks/invoices", "/locks/parcels"}, `[...document.querySelectorAll("#troubles li:first-child button")].map((e) => e.textContent).sort()`)
	if *pictures {
		time.Sleep(30 * time.Second)
		p.picture("serve-deadlock.png", "dark")
	}

	other.Cancel(nil)
	sees(p, 0, `document.querySelectorAll(".deadlock, .red, .stuck").length`)
	sees(p, "Nothing, as far as the page knows.", `document.querySelector("#well").textContent`)
	require.NoError(t, parcels.Release())
	sees(p, []string{"billing:1201"}, texts(holders))
	waits.Get()
}

func TestAHungConsumerIsSeen(t *testing.T) {
	srv := zktest.NewServer(t)
	producer, consumer := dial(t, srv, "web:1"), dial(t, srv, "mailer:77")
	q := zkrecipes.NewQueue(producer, "/jobs/mail", nil)
	_, err := q.PutAll(t.Context(), []byte("1"), []byte("2"), []byte("3"))
	require.NoError(t, err)
	taken, err := zkrecipes.NewQueue(consumer, "/jobs/mail", nil).Take(t.Context())
	require.NoError(t, err)
	_, err = zkrecipes.NewQueue(producer, "/jobs/mail-dead", nil).Put(t.Context(), []byte("failed"))
	require.NoError(t, err)
	p := open(t, serve(t, srv, "--stale", "2s").url)
	p.run(chromedp.Click(chromedp.CSS(`tr[data-path="/jobs/mail"]`)))
	sees(p, 3, `document.querySelectorAll("#items tbody tr").length`)
	sees(p, []string{"mailer:77"}, texts("#items tr.stale td:nth-child(4) span"))
	sees(p, true, `/taken \ds, 3 items, 1 dead/.test(document.querySelector('tr[data-path="/jobs/mail"].stale td.state').textContent)`)
	sees(p, true, `document.querySelector("#facts .old").textContent.startsWith("1 taken")`)
	sees(p, []string{"1 dead letter"}, texts("#facts .link"))
	sees(p, true, `/^taken for \d+s,1 dead letter$/.test([...document.querySelectorAll("#troubles .what")].map((e) => e.textContent).join(","))`)

	require.NoError(t, taken.Ack(t.Context()))
	sees(p, 2, `document.querySelectorAll("#items tbody tr").length`)
	sees(p, 0, `document.querySelectorAll("#items tr.stale, #tree tr.stale").length`)
	p.run(chromedp.Click(chromedp.CSS("#facts .link")))
	sees(p, "/jobs/mail-dead", `document.querySelector("#title").textContent`)
	sees(p, 1, `document.querySelectorAll("#items tbody tr").length`)
}

// What is in an item is read when somebody asks for it.
func TestWhatAnItemSaysIsShownOnRequest(t *testing.T) {
	srv := zktest.NewServer(t)
	q := zkrecipes.NewQueue(dial(t, srv, "web:1"), "/jobs/mail", nil)
	ids, err := q.PutAll(t.Context(), []byte("to: a\u202e<b>\n\x1b[2J\xff"), bytes.Repeat([]byte("x"), 5000))
	require.NoError(t, err)
	p := open(t, serve(t, srv, "--show-data").url+"#/jobs/mail")
	sees(p, []string{"data of " + string(ids[0]), "data of " + string(ids[1])},
		`[...document.querySelectorAll("#items button[aria-expanded]")].map((e) => e.getAttribute("aria-label"))`)
	is[bool](p, `(() => { document.querySelector("#items button[aria-expanded]").focus(); return true; })()`)
	p.run(chromedp.KeyEvent("\r"))
	sees(p, "to: a\\u202e<b>\n\\x1b[2J\\xff", `document.querySelector("#items pre")?.textContent || ""`)
	sees(p, "17 bytes", `document.querySelector("#said").textContent`)
	sees(p, "true", `document.querySelector("#items button[aria-expanded]").getAttribute("aria-expanded")`)
	p.run(chromedp.Sleep(1500 * time.Millisecond)) // the page is drawn each second
	sees(p, "data of "+string(ids[0]), `document.activeElement.getAttribute("aria-label")`)
	p.run(chromedp.KeyEvent("\r"))
	sees(p, 0, `document.querySelectorAll("#items pre").length`)
	is[bool](p, `document.querySelectorAll("#items button[aria-expanded]")[1].click() || true`)
	sees(p, "5000 bytes, of which the last 904 are not shown", `document.querySelector("#items .data p")?.textContent || ""`)
	sees(p, strings.Repeat("x", 4096), `document.querySelector("#items pre").textContent`)
	p.colours("dark")
	p.run(chromedp.EmulateViewport(390, 860))
	sees(p, []string{}, wide(390))
	sees(p, []string{}, faint)

	closed := open(t, serve(t, srv).url+"#/jobs/mail")
	sees(closed, 2, `document.querySelectorAll("#items tbody tr").length`)
	require.Zero(t, is[int](closed, `document.querySelectorAll("#items button[aria-expanded]").length`))
}

// Names that do not fit lose their middle on the page, and are copied whole.
func TestNamesAreCopiedWhole(t *testing.T) {
	srv := zktest.NewServer(t)
	identity := "ledger-writer-" + strings.Repeat("7f9c6d5b4", 10) + ".production:31337"
	lock(t, dial(t, srv, identity), ledger)
	p := open(t, serve(t, srv).url)
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		_, err := chromedp.Call(p.ctx, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
			Permission: &cdpbrowser.PermissionDescriptor{Name: name}, Setting: cdpbrowser.PermissionSettingGranted,
		})
		require.NoError(t, err)
	}
	p.show(ledger)
	sees(p, true, `/…/.test(document.querySelector(".card .who")?.textContent)`)
	for _, row := range [][]string{{".card .copy", identity}, {"#copy", ledger}} {
		selector, name := row[0], row[1]
		p.press(selector, "copy "+name)
		sees(p, "copied", fmt.Sprintf(`document.querySelector(%q).textContent`, selector))
		sees(p, "copied "+name, `document.querySelector("#said").textContent`)
		require.Equal(t, name, p.clipboard())
	}
	sees(p, "copy", `document.querySelector(".card .copy").textContent`)
	// Without the clipboard's API, which browsers offer at secure addresses only.
	is[bool](p, `Object.defineProperty(navigator, "clipboard", {value: undefined}) !== null`)
	p.press(".card .copy", "copy "+identity)
	sees(p, "copied", `document.querySelector(".card .copy").textContent`)
	require.True(t, is[bool](p, `document.activeElement === document.querySelector(".card .copy")`))
}

// press presses the button of that name by the keyboard.
func (p *tab) press(selector, name string) {
	p.t.Helper()
	require.Contains(p.t, p.accessible()["button"], name)
	is[bool](p, fmt.Sprintf(`(() => { document.querySelector(%q).focus(); return true; })()`, selector))
	p.run(chromedp.KeyEvent("\r"))
}

// clipboard returns what was copied last.
func (p *tab) clipboard() string {
	p.t.Helper()
	is[bool](p, `(() => { delete window.pasted; navigator.clipboard.readText().then((text) => { window.pasted = text; }, (e) => { window.pasted = String(e); }); return true; })()`)
	sees(p, true, `typeof window.pasted === "string"`)
	return is[string](p, `window.pasted`)
}

// Whoever may write znodes chooses identities and paths.
func TestWhatZnodesSayIsNoHTML(t *testing.T) {
	srv := zktest.NewServer(t)
	const evil = `<img src=x onerror="document.title='owned'"><script></script>` // short enough to be shown whole
	const path = `/locks/<b onmouseover=alert(1)>"'&`
	lock(t, dial(t, srv, evil), path)
	startLock(t, dial(t, srv, "</span>\x00\u202e"), path)
	p := open(t, serve(t, srv).url)
	p.run(chromedp.Click(chromedp.CSS(`#tree tr[data-path]`)))
	sees(p, []string{evil}, texts(holders))
	sees(p, []string{"</span>"}, texts(waiters))
	sees(p, path, `document.querySelector("#title").textContent`)
	require.Zero(t, is[int](p, `document.querySelectorAll("img, b, body script, #right [onerror], [onmouseover]").length`))
	require.NotEqual(t, "owned", is[string](p, "document.title"))
}

func TestThePageEvictsWithTheTokenOnly(t *testing.T) {
	srv := zktest.NewServer(t)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("a token of enough bytes\n"), 0o600))
	lock(t, dial(t, srv, "app-1:1"), "/locks/a")
	w := startLock(t, dial(t, srv, "app-2:2"), "/locks/a")
	await(t, srv, "/locks/a", 2)
	p := open(t, serve(t, srv, "--allow-actions", "--token-file", file).url+"#/locks/a")
	sees(p, []string{"app-2:2"}, texts(waiters))
	sees(p, 2, `document.querySelectorAll(".card .danger").length`)
	is[bool](p, `document.querySelector(".card:not(.holds) .danger").click() || true`)
	sees(p, "Evict app-2:2, which waits for /locks/a?", `document.querySelector("#question").textContent`)
	p.run(chromedp.SendKeys(chromedp.CSS("#token"), "another token"), chromedp.Click(chromedp.CSS("#confirm")))
	sees(p, "wrong token", `document.querySelector("#answer").textContent`)
	require.Len(t, srv.Children("/locks/a"), 2)
	p.mu.Lock()
	require.Len(t, p.faults, 1, "the browser notes the answer")
	require.Contains(t, p.faults[0], "403")
	p.faults = nil
	p.mu.Unlock()
	p.run(chromedp.SetValue(chromedp.CSS("#token"), "a token of enough bytes"), chromedp.Click(chromedp.CSS("#confirm")))
	sees(p, []string{}, texts(waiters))
	sees(p, false, `document.querySelector("#ask").open`)
	_, err := w.Wait()
	require.ErrorIs(t, err, zkrecipes.ErrEvicted)
	sees(p, []string{"app-1:1"}, texts(holders))
}

func TestThePageSaysWhatItCostsAndThatZkrHasEnded(t *testing.T) {
	srv := zktest.NewServer(t)
	lock(t, dial(t, srv, "app-1:1"), "/locks/a")
	s := serve(t, srv)
	p := open(t, s.url)
	sees(p, true, `/\d+ watch(es)?, [\d.]+ requests\/s, at most 80\..*Read only\./.test(document.querySelector("#cost").textContent)`)
	sees(p, 1, `document.querySelectorAll('tr[data-path="/locks/a"].busy').length`)
	sees(p, true, `document.querySelector("#lost").hidden`)
	is[bool](p, `(() => { take({now: Date.now(), rows: [{...rows.get("/locks/a"), recipe: "rwlock"}]}); return true; })()`)
	sees(p, []string{"rwlock"}, texts("#tree .tag")) // somebody has made another recipe there
	require.Equal(t, 128+15, s.ends(syscall.SIGTERM))
	sees(p, false, `document.querySelector("#lost").hidden`)
	sees(p, "off no connection to zkr", `document.querySelector("#connection").className + " " + document.querySelector("#connection").textContent`)
	sees(p, 1, `document.querySelectorAll('tr[data-path="/locks/a"].busy').length`) // it stays
	serve(t, srv, "--listen", strings.Split(s.url, "/")[2], "/jobs")
	sees(p, []string{}, paths) // this zkr does not know it
	sees(p, true, `document.querySelector("#lost").hidden`)
	p.mu.Lock()
	p.faults = nil // the browser notes each attempt to connect again
	p.mu.Unlock()
	p.run(chromedp.Navigate("about:blank"))
}

func TestWhatIsLeftOutIsSaidWhereOneLooks(t *testing.T) {
	srv := zktest.NewServer(t)
	c := dial(t, srv, "app-1:1")
	for _, path := range []string{"/locks/a", "/locks/b", "/locks/c"} {
		lock(t, c, path)
	}
	p := open(t, serve(t, srv, "--lines", "1").url)
	sees(p, true, `/^Not shown: 2 recipes or more beyond --lines 1/.test(document.querySelector("#left-out").textContent)`)
	sees(p, true, `/Not shown: .* A deadlock may be missing/.test(document.querySelector("#calm").textContent)`)
}

// Before the first reading the answer is unknown, and none is given.
func TestAPageThatHasNotReadGivesNoAnswer(t *testing.T) {
	srv := zktest.NewServer(t)
	c := dial(t, srv, "app-1:1")
	for i := range 200 {
		lock(t, c, fmt.Sprintf("/locks/%d", i))
	}
	p := open(t, serve(t, srv, "--requests", "4").url)
	sees(p, true, `/^Reading: \d+ of 200 recipes/.test(document.querySelector("#reading").textContent)`)
	sees(p, true, `/Reading: \d+ of 200 recipes.*A deadlock may be missing/.test(document.querySelector("#calm").textContent)`)
	sees(p, "Nobody waits.", `document.querySelector("#calm").textContent`)
	sees(p, true, `document.querySelector("#left-out").hidden && document.querySelector("#reading").hidden`)
}

func TestAMalformedFragmentDoesNotStopThePage(t *testing.T) {
	srv := zktest.NewServer(t)
	lock(t, dial(t, srv, "app-1:1"), "/locks/a")
	p := open(t, serve(t, srv).url+"#%E0%A4%A")
	sees(p, 1, `document.querySelectorAll('tr[data-path="/locks/a"]').length`)
	is[bool](p, `(() => { location.hash = "#%zz"; return true; })()`)
	p.run(chromedp.Click(chromedp.CSS(`tr[data-path="/locks/a"]`)))
	sees(p, []string{"app-1:1"}, texts(holders))
}

func TestWhatIsHeldForLongIsFoundAndSorted(t *testing.T) {
	srv := zktest.NewServer(t)
	lock(t, dial(t, srv, "app-1:1"), "/locks/c-old")
	startLock(t, dial(t, srv, "app-2:2"), "/locks/c-old")
	await(t, srv, "/locks/c-old", 2)
	p := open(t, serve(t, srv, "--stale", "2s").url)
	sees(p, true, `/^held for \d+s /.test(document.querySelector("#troubles").textContent)`)
	lock(t, dial(t, srv, "app-3:3"), "/locks/a-young")
	lock(t, dial(t, srv, "app-4:4"), "/locks/b-young")
	sees(p, []string{"/locks/a-young", "/locks/b-young", "/locks/c-old"}, paths)
	is[bool](p, `(() => { const s = document.querySelector("#sort"); s.value = "held"; return s.dispatchEvent(new Event("change")); })()`)
	sees(p, []string{"/locks/c-old", "/locks/a-young", "/locks/b-young"}, paths)
	sees(p, 0, `document.querySelectorAll("#tree tr.directory").length`)
	p.run(chromedp.SendKeys(chromedp.CSS("#filter"), "stale"))
	sees(p, []string{"/locks/c-old"}, paths)
	p.run(chromedp.Click(chromedp.CSS("#troubles button")))
	sees(p, []string{"app-1:1"}, texts(holders))
}

// paths is an expression for the paths of the tree, in order.
const paths = `[...document.querySelectorAll("#tree tr[data-path]")].map((e) => e.dataset.path)`

// faint is an expression for the texts whose contrast is below 4.5 (WCAG 2.2, 1.4.3).
const faint = `(() => {
  const parts = (c) => (c.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parts(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let n = 0;
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !e.checkVisibility() || e.closest("svg")) continue;
    n++;
    const [a, b] = [light(parts(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(ratio.toFixed(2) + " " + (e.id || e.className || e.tagName) + ": " + walk.currentNode.textContent);
  }
  return n < 20 ? ["only " + n + " texts"] : [...new Set(found)];
})()`

func TestThePageForKeyboardPhoneAndEyes(t *testing.T) {
	srv := zktest.NewServer(t)
	for i := range 12 { // enough for the line to be out of sight on a phone, and nothing that moves
		lock(t, dial(t, srv, fmt.Sprintf("app:%d", i)), fmt.Sprintf("/limits/%d", i))
	}
	lock(t, dial(t, srv, "app-1:1"), "/locks/a")
	startLock(t, dial(t, srv, "app-2:2"), "/locks/a")
	await(t, srv, "/locks/a", 2)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("a token of enough bytes\n"), 0o600))
	p := open(t, serve(t, srv, "--stale", "2s", "--allow-actions", "--token-file", file).url+"#/locks/a")
	sees(p, true, `document.querySelectorAll("#troubles li").length > 0 && document.querySelectorAll(".card .danger").length === 2`)
	for _, scheme := range []string{"light", "dark"} {
		p.colours(scheme)
		sees(p, []string{}, faint)
	}
	named := p.accessible()
	for role, want := range map[string][]string{
		"navigation":   {"Recipes"},
		"main":         {""},
		"heading":      {"zkr", "Needs attention", "Who waits for whom", "/locks/a mutex"},
		"columnheader": {"Path", "Now", "Hold", "Wait", "Per s"},
		"searchbox":    {"Filter"},
		"combobox":     {"Sort"},
		"alert":        {""},
		"status":       {""}, // it has nothing to say
	} {
		require.Equal(t, want, named[role], role)
	}
	require.NotEmpty(t, named["table"])
	require.Len(t, named["row"], len(is[[]string](p, texts("#tree tr"))), "the table is one although it is laid out as a grid")
	for _, role := range []string{"button", "link", "image", "img", "searchbox", "combobox", "textbox"} {
		require.NotContains(t, named[role], "", role)
	}
	require.Contains(t, named["button"], "evict app-2:2")
	require.Equal(t, p.order(), p.tabs(), "the focus moves in the order of the page")

	// All by the keyboard: to the row, and to the button that evicts.
	is[bool](p, `(() => { document.querySelector('tr[data-path="/locks/a"] button').focus(); return true; })()`)
	p.run(chromedp.KeyEvent("\r"))
	sees(p, "true", `document.querySelector('tr[data-path="/locks/a"] button').getAttribute("aria-current")`)
	sees(p, []string{"app-2:2"}, texts(waiters))
	is[bool](p, `(() => { document.querySelector(".card:not(.holds) .danger").focus(); return true; })()`)
	sees(p, "1", `getComputedStyle(document.querySelector(".card:not(.holds) .acts")).opacity`)
	p.run(chromedp.KeyEvent("\r"))
	sees(p, true, `document.querySelector("#ask").open`)
	p.run(chromedp.KeyEvent("\x1b"))
	sees(p, false, `document.querySelector("#ask").open`)

	p.run(chromedp.EmulateViewport(390, 860))
	sees(p, []string{}, wide(390))
	sees(p, true, `document.querySelector("nav").getBoundingClientRect().top > document.querySelector("#right").getBoundingClientRect().bottom - 1`)
	is[bool](p, `document.querySelector('tr[data-path="/limits/7"] button').click() || true`)
	sees(p, true, `Math.abs(document.querySelector("#line").getBoundingClientRect().top) < 60`)
}

// accessible returns the names of what a screen reader finds, by role.
func (p *tab) accessible() map[string][]string {
	p.t.Helper()
	tree, err := chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	require.NoError(p.t, err)
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal(v.Value, &s)
		}
		return s
	}
	named := map[string][]string{}
	for _, n := range tree.Nodes {
		if !n.Ignored {
			role := text(n.Role)
			named[role] = append(named[role], text(n.Name))
		}
	}
	return named
}

const label = `((e) => e.id || e.getAttribute("aria-label") || e.textContent)`

// order returns what can have the focus, in the order of the page.
func (p *tab) order() []string {
	return is[[]string](p, `[...document.querySelectorAll("button, input, select, [tabindex='0']")].filter((e) => e.checkVisibility() && !e.disabled).map(`+label+`)`)
}

// tabs returns what gets the focus by the key Tab, from the beginning.
func (p *tab) tabs() (got []string) {
	p.t.Helper()
	is[bool](p, `(() => { document.activeElement.blur(); getSelection().removeAllRanges(); return true; })()`)
	for range p.order() {
		p.run(chromedp.KeyEvent("\t"))
		got = append(got, is[string](p, label+`(document.activeElement)`))
	}
	return got
}

// busyFor returns how much CPU the page takes in that time.
func (p *tab) busyFor(d time.Duration) time.Duration {
	p.t.Helper()
	busy := func() time.Duration {
		all, err := chromedp.Call(p.ctx, performance.GetMetrics, cdp.Empty{})
		require.NoError(p.t, err)
		i := slices.IndexFunc(all.Metrics, func(m *performance.Metric) bool { return m.Name == "ThreadTime" })
		require.GreaterOrEqual(p.t, i, 0)
		return time.Duration(all.Metrics[i].Value * float64(time.Second))
	}
	_, err := chromedp.Call(p.ctx, performance.Enable, performance.EnableParams{})
	require.NoError(p.t, err)
	before := busy()
	p.run(chromedp.Sleep(d))
	return busy() - before
}

const ledger = "/locks/regions/eu-central-1/tenants/0f9d2a7c-1f6e-4c1b-9a3e-5f0d8f6a7b21/ledger"

// 640 pixels are 1280 at a zoom of 200 %.
func TestAPageFullOfThings(t *testing.T) {
	srv := zktest.NewServer(t)
	leave := fullScene(t, srv, 2000)
	p := open(t, serve(t, srv, "--lines", "3000", "--stale", "5s").url)
	sees(p, true, `document.querySelectorAll("#tree tr[data-path]").length > 2000 && document.querySelector("#reading").hidden`)
	sees(p, 1, `document.querySelectorAll("#deadlocks .deadlock").length`)
	sees(p, []string{"/locks/cache", "/locks/invoices"}, paths+`.filter((p) => p.startsWith("/locks/")).slice(0, 2)`)
	sees(p, 1, `[...document.querySelectorAll("#tree tr.directory")].filter((e) => e.textContent === "/locks/").length`)
	busy := p.busyFor(10 * time.Second)
	t.Logf("2,000 recipes take %v of CPU in 10s", busy)
	require.Less(t, busy, 2*time.Second)

	sees(p, "4 members", `document.querySelector('tr[data-path="/services/search"] td.state').textContent`)
	leave()
	sees(p, "3 members, 1 gone", `document.querySelector('tr[data-path="/services/search"] td.state').textContent`)
	sees(p, 1, `[...document.querySelectorAll("#troubles li")].filter((e) => /^1 member gone for \d+s .services.search search-3. 3 of 4 are there/.test(e.textContent)).length`)
	p.run(chromedp.SendKeys(chromedp.CSS("#filter"), "WRITER-7f9c6d5b4-00007"))
	sees(p, []string{ledger}, paths)
	filter := func(text string) {
		is[bool](p, fmt.Sprintf(`(() => { const f = document.querySelector("#filter"); f.value = %q; return f.dispatchEvent(new Event("input")); })()`, text))
	}
	filter("")
	for path, says := range map[string]string{"/services/search": "10.0.0.2:9200", "/apps/scheduler": "value of the leader: node", "/counters/invoices": "value 4711", ledger: "30 wait"} {
		p.show(path)
		sees(p, true, fmt.Sprintf(`document.querySelector("#line").textContent.includes(%q)`, says))
	}
	for _, scheme := range []string{"light", "dark"} {
		p.colours(scheme)
		for _, width := range []int64{1280, 640, 390} {
			p.run(chromedp.EmulateViewport(width, 860))
			sees(p, []string{}, wide(width))
		}
		filter("/locks/") // of a few rows
		sees(p, []string{}, faint)
		filter("")
	}
}

// show picks a recipe, or none.
func (p *tab) show(path string) {
	p.t.Helper()
	is[bool](p, fmt.Sprintf("(() => { location.hash = %q; return true; })()", "#"+path))
	sees(p, cmp.Or(path, "All lines"), `document.querySelector("#title").textContent`)
}

// wide is an expression for what is wider than the window.
func wide(width int64) string {
	return fmt.Sprintf(`document.documentElement.scrollWidth <= %[1]d ? [] :
		[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > %[1]d && !e.closest("#items-box, #graph-box")).map((e) => e.tagName + "#" + e.id + "." + e.getAttribute("class"))`, width)
}
