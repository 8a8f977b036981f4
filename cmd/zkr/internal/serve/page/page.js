// The page of zkr serve. What the servers store reaches the document as text alone, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const rows = new Map(); // path -> row
let picked = pathInAddress();
let detail = null, graph = null, state = null, token = "";
let ahead = 0; // of zkr's clock, in milliseconds
let source = null;
let isFirst = true; // the next message is the first one of a stream, and has all
let isArriving = false; // the line that was picked may be out of sight

const now = () => Date.now() + ahead;

// pathInAddress returns the path in the fragment, or "" if that is malformed.
function pathInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch (e) {
    return "";
  }
}

// make returns an element with a class, text and children.
function make(tag, className, text, ...children) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined && text !== null) e.textContent = text;
  e.append(...children);
  return e;
}

// kept returns the element of a key, which is created once.
function kept(elements, key, create) {
  if (!elements.has(key)) elements.set(key, create());
  return elements.get(key);
}

// keepOnly forgets the elements of other keys.
function keepOnly(elements, keys) {
  for (const key of elements.keys()) if (!keys.has(key)) elements.delete(key);
}

// button returns a button, which a label names if its text is too short for that.
function button(className, text, press, label) {
  const b = make("button", className, text);
  b.type = "button";
  if (label) b.setAttribute("aria-label", label);
  b.addEventListener("click", press);
  return b;
}

function makeSVG(tag, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

function span(milliseconds) {
  const s = Math.max(0, Math.floor(milliseconds / 1000));
  if (s < 60) return s + "s";
  if (s < 3600) return Math.floor(s / 60) + "m" + String(s % 60).padStart(2, "0") + "s";
  if (s < 86400) return Math.floor(s / 3600) + "h" + String(Math.floor(s % 3600 / 60)).padStart(2, "0") + "m";
  return Math.floor(s / 86400) + "d" + Math.floor(s % 86400 / 3600) + "h";
}

const age = (since) => span(now() - since);
const seconds = (s) => s === 0 ? "0 s" : s < 1 ? Math.round(s * 1000) + " ms" : s < 120 ? s.toPrecision(2) * 1 + " s" : span(s * 1000);
const perSecond = (r) => r === 0 ? "0" : r < 0.095 ? r.toFixed(2) : r < 9.95 ? r.toFixed(1) : Math.round(r).toString();
const count = (n, one, many) => n + " " + (n === 1 ? one : many || one + "s");
const isOld = (since) => since && state && now() - since > state.stale;

// connect opens the stream of events for the line that is picked.
function connect() {
  if (source) source.close();
  source = new EventSource("events?line=" + encodeURIComponent(picked));
  source.onopen = () => { isFirst = true; };
  source.onerror = () => {
    $("lost").hidden = false;
    drawConnection();
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000); // refused: zkr is full
  };
  source.onmessage = (event) => take(JSON.parse(event.data));
}

function take(m) {
  ahead = m.now - Date.now();
  $("lost").hidden = true;
  let isNew = isFirst || !!m.gone;
  if (isFirst) rows.clear(); // zkr may have been started anew, and what was there be gone
  isFirst = false;
  for (const r of m.rows || []) {
    isNew = isNew || !rows.has(r.path);
    rows.set(r.path, r);
  }
  for (const path of m.gone || []) rows.delete(path);
  if (!rows.has(picked)) detail = null;
  if (m.status) { state = m.status; drawStatus(); }
  if (m.line) detail = m.line;
  if (m.graph) { graph = m.graph; drawGraph(); }
  if (isNew || m.rows && !isPlain()) drawTree();
  else for (const r of m.rows || []) drawRow(r);
  if (m.status) drawEmpty();
  drawTroubles();
  if (m.line || m.status) { drawLine(); drawCharts(); }
  if (m.line && isArriving) arrive();
}

// arrive shows the line that was picked if it is out of sight, as it always is in one column.
function arrive() {
  isArriving = false;
  if (innerWidth <= 700 || $("line").getBoundingClientRect().top > innerHeight / 2) $("line").scrollIntoView();
}

function pick(path) {
  picked = path;
  detail = null;
  location.hash = encodeURIComponent(path);
  for (const all of [cards, itemRows, opened]) all.clear();
  for (const box of [$("held"), $("waiting"), $("items").tBodies[0]]) box.replaceChildren();
  drawTree();
  drawLine();
  drawCharts();
  connect();
  isArriving = !!path;
}

// --- the tree

function stateOf(r) {
  if (r.failed) return "cannot be read";
  if (r.recipe === "queue") {
    if (r.len === undefined) return r.dead ? "empty, " + r.dead + " dead" : "empty";
    let text = count(r.len, "item") + ", " + age(r.item);
    if (r.holders && isOld(r.held)) text = "taken " + age(r.held) + ", " + count(r.len, "item");
    return r.dead ? text + ", " + r.dead + " dead" : text;
  }
  if (r.recipe === "group") return count(r.holders, "member") + (r.missed ? ", " + r.missed + " gone" : "");
  if (r.recipe === "shards") return count(r.size, "shard") + ", " + count(r.holders, "process", "processes");
  if (r.recipe === "gate") return "shut " + age(r.held);
  if (r.recipe === "counter") return r.waiters ? count(r.waiters, "call") + " wait" : "";
  if (r.deadlock) return "deadlock";
  if (r.recipe === "barrier" || r.recipe === "doublebarrier") return r.holders ? "open" : r.waiters ? "waits" + (r.size ? " for " + (r.size - r.waiters) : "") : "idle";
  if (r.holders) return (r.size ? r.holders + " of " + r.size + ", " : "held ") + (r.held ? age(r.held) : "");
  return r.waiters ? "changes hands" : "free";
}

// lastsLong reports whether a hold lasts for long as a rule: leaders lead, and members and owners are there.
const lastsLong = (r) => ["election", "group", "shards"].includes(r.recipe);

const namesGone = (r) => r.gone.join(", ") + (r.missed > r.gone.length ? ", …" : "");

function classOf(r) {
  if (r.deadlock) return "stuck";
  const isStale = r.holders && isOld(r.held) && (r.waiters || r.recipe === "queue");
  if (isStale && !lastsLong(r) || r.gone) return "stale";
  return r.holders || r.waiters || r.len ? "busy" : "idle";
}

// words are filters by what a recipe is like.
const words = { __proto__: null, deadlock: (r) => r.deadlock, waiting: (r) => r.waiters > 0, stale: (r) => classOf(r) === "stale" };

function isWanted(r, filter) {
  if (filter in words) return words[filter](r);
  return r.path.toLowerCase().includes(filter) || found.text === filter && found.paths.has(r.path);
}

// found are the recipes in which an identity or a session has the text of the filter. zkr knows them.
let found = { text: "", paths: new Set() };

async function find() {
  const text = filterText();
  if (!text || text in words) return;
  try {
    const reply = await fetch("find?text=" + encodeURIComponent(text));
    if (!reply.ok || text !== filterText()) return;
    found = { text, paths: new Set(await reply.json()) };
    drawTree();
  } catch (e) {} // the banner says that zkr is gone
}

const filterText = () => $("filter").value.trim().toLowerCase();

const parentOf = (path) => path.slice(0, path.lastIndexOf("/") + 1);
const byPath = (a, b) => { // the recipes of a directory stand together
  const x = parentOf(a.path), y = parentOf(b.path);
  return x < y || x === y && a.path < b.path ? -1 : 1;
};
const oldest = (a, b, field) => (a[field] || Infinity) - (b[field] || Infinity) || byPath(a, b);
const orders = {
  path: byPath,
  held: (a, b) => oldest(a.holders && !lastsLong(a) ? a : { path: a.path }, b.holders && !lastsLong(b) ? b : { path: b.path }, "held"),
  waiting: (a, b) => oldest(a.waiters ? a : { path: a.path }, b.waiters ? b : { path: b.path }, "waiting"),
  waiters: (a, b) => b.waiters - a.waiters || byPath(a, b),
};

const treeRows = new Map(); // path -> element

// isPlain reports whether the tree has all rows, by path: what changes moves none of them.
const isPlain = () => !filterText() && $("sort").value === "path";

// drawRow draws a row anew where it is.
function drawRow(r) {
  const e = treeRows.get(r.path);
  if (e && e.isConnected) fillRow(e, r);
}

// tick draws what the time has changed.
function tick() {
  if (!isPlain()) return drawTree();
  for (const r of rows.values()) if (r.holders || r.waiters || r.len || r.recipe === "gate") drawRow(r);
}

function drawTree() {
  const filter = filterText();
  const wanted = [...rows.values()].filter((r) => isWanted(r, filter)).sort(orders[$("sort").value]);
  const isTree = $("sort").value === "path", body = $("tree").tBodies[0], elements = [];
  let directory = null;
  for (const r of wanted) {
    const parent = parentOf(r.path);
    if (isTree && parent !== directory) {
      directory = parent;
      if (parent !== "/") elements.push(directoryRow(parent));
    }
    elements.push(isTree ? treeRow(r, r.path.slice(parent.length), parent) : treeRow(r, r.path, "/"));
  }
  keepOnly(treeRows, rows);
  fill(body, elements);
  drawEmpty();
}

function drawEmpty() {
  const isEmpty = !$("tree").tBodies[0].firstElementChild;
  tell("empty", !isEmpty ? "" : filterText() && rows.size ? "Nothing matches." : missing() || "No recipe is in use here.");
}

const directories = new Map();

function directoryRow(path) {
  return kept(directories, path, () => {
    const cell = make("td", "name", path);
    cell.title = path;
    cell.colSpan = 5;
    return make("tr", "directory", null, cell);
  });
}

function treeRow(r, name, parent) {
  const e = kept(treeRows, r.path, () => newTreeRow(r));
  setClass(e.cells[0], "name" + (parent === "/" ? "" : " in1"));
  setName(e.cells[0].firstChild.firstChild, name);
  fillRow(e, r);
  return e;
}

function newTreeRow(r) {
  // A press is a click on the row.
  const first = make("td", "", null, make("div", "", null, button("pick name-box", null, () => {}), make("span", "tag")));
  first.title = r.path;
  const e = make("tr", "", null, first, make("td", "state"), make("td", "number"), make("td", "number"), make("td", "number"));
  e.dataset.path = r.path;
  e.addEventListener("click", () => pick(r.path));
  return e;
}

function fillRow(e, r) {
  setClass(e, classOf(r) + (r.path === picked ? " picked" : ""));
  const [first, what, hold, wait, rate] = e.cells;
  const b = first.firstChild.firstChild;
  setText(first.firstChild.lastChild, r.recipe);
  if (r.path === picked) b.setAttribute("aria-current", "true");
  else if (b.hasAttribute("aria-current")) b.removeAttribute("aria-current");
  if (setText(what, stateOf(r))) what.title = r.failed || what.textContent;
  setText(hold, r.holders ? String(r.holders) : "");
  setText(wait, r.waiters ? String(r.waiters) : "");
  setText(rate, r.rate ? perSecond(r.rate) : "");
}

// --- what needs attention

const mostTroubles = 20;

// troubles returns what is stuck, or looks so: the worst first.
function troubles() {
  const found = [];
  for (const d of graph ? graph.deadlocks : []) {
    found.push({ key: "deadlock " + d.sentence, kind: "stuck", rank: 0, since: d.since, paths: [...new Set(d.paths)], what: "deadlock" + (d.since ? " for " + age(d.since) : ""),
      text: d.sentence + ".", advice: "Evict one of the waiters: its call returns an error, and nobody loses a lock." });
  }
  for (const r of rows.values()) {
    const add = (rank, since, what, text, advice) => found.push({ key: rank + r.path, kind: "", rank, since, paths: [r.path], what, text, advice });
    if (r.failed) add(1, 0, "cannot be read", r.failed, "");
    if (r.recipe === "queue") {
      if (r.holders && isOld(r.held)) add(2, r.held, "taken for " + age(r.held), count(r.holders, "item") + " taken, " + count(r.len || 0, "item") + " in all.", "Look whether the consumer works or hangs. If its process ends, the item is taken again.");
      if (r.dead) add(4, 0, count(r.dead, "dead letter"), "", "zkr queue ls --dead shows why; zkr queue redrive moves them back.");
    } else if (r.gone) {
      add(3, r.goneAt, count(r.missed, "member") + " gone for " + age(r.goneAt), namesGone(r) + ". " + r.holders + " of " + (r.holders + r.missed) + " are there.", "Its process has ended, or cannot reach the servers.");
    } else if (!r.deadlock && r.waiters && r.holders && isOld(r.held) && !lastsLong(r)) {
      add(2, r.held, "held for " + age(r.held), count(r.waiters, "waiter") + ".", "Look whether the holder works or hangs.");
    } else if (!r.deadlock && isOld(r.waiting) && !lastsLong(r)) {
      add(3, r.waiting, "waits for " + age(r.waiting), count(r.waiters, "waiter") + ".", "");
    }
  }
  return found.sort((a, b) => a.rank - b.rank || (a.since || Infinity) - (b.since || Infinity) || (a.key < b.key ? -1 : 1));
}

const troubleItems = new Map(); // key -> element

function drawTroubles() {
  const all = troubles(), shown = all.slice(0, mostTroubles);
  const more = all.length > shown.length ? "And " + (all.length - shown.length) + " more: filter by stale." : "";
  const unknown = missing();
  setText($("well"), [all.length ? "" : state && state.walked ? "Nothing, as far as the page knows." : "", unknown, more].filter((text) => text).join(" "));
  keepOnly(troubleItems, new Set(shown.map((t) => t.key)));
  fill($("troubles"), shown.map(troubleItem));
}

function troubleItem(t) {
  const e = kept(troubleItems, t.key, () => make("li", t.kind, null, make("span", "what"), " ",
    ...t.paths.flatMap((p) => [button("path", p, () => pick(p)), " "]), make("span"), " ", make("span", "advice")));
  setText(e.querySelector(".what"), t.what);
  setText(e.querySelector("span:not(.what):not(.advice)"), t.text);
  setText(e.querySelector(".advice"), t.advice);
  return e;
}

// --- a line

function drawLine() {
  const r = rows.get(picked);
  $("title").textContent = picked || "All lines";
  $("kind").textContent = r ? r.recipe : "";
  setCopy($("copy"), picked);
  drawFacts(r);
  drawPlaces(detail ? detail.places : [], r);
  tell("more", detail && detail.more ? "and " + detail.more + " more behind them" : "");
  drawItems(detail && r.recipe === "queue" ? detail.items || [] : null);
}

function drawFacts(r) {
  const facts = $("facts");
  facts.replaceChildren();
  facts.className = "";
  if (!picked) {
    const all = [...rows.values()];
    facts.textContent = count(all.length, "recipe") + ", " + all.filter((x) => x.holders).length + " held, " +
      all.filter((x) => x.waiters).length + " with waiters. Pick one to see its line.";
    return;
  }
  if (!r) { facts.textContent = "Nothing is known of this path."; return; }
  if (r.failed) { facts.textContent = r.failed; facts.className = "error"; return; }
  facts.append(...factsOf(r).flatMap((f, i) => i ? [" · ", f] : [f]));
}

function factsOf(r) {
  const facts = [];
  if (r.recipe === "queue") {
    facts.push(count(r.len || 0, "item"));
    if (r.len) facts.push("the oldest put " + age(r.item) + " ago");
    if (r.holders) facts.push(make("span", isOld(r.held) ? "old" : "", r.holders + " taken, the first " + age(r.held) + " ago"));
    facts.push(count(r.waiters, "consumer") + (r.waiters === 1 ? " waits" : " wait"));
    if (r.dead) facts.push(button("path link", count(r.dead, "dead letter"), () => pick(r.path + "-dead")));
    return facts;
  }
  facts.push(stateOf(r));
  if (detail && detail.says) facts.push(detail.says);
  if (r.gone) facts.push(make("span", "old", "gone: " + namesGone(r)));
  if (r.waiters) facts.push(r.waiters === 1 ? "1 waits" + (r.waiting ? ", for " + age(r.waiting) : "") : r.waiters + " wait" + (r.waiting ? ", the first for " + age(r.waiting) : ""));
  if (r.rate) facts.push(perSecond(r.rate) + " acquisitions/s");
  if (r.p99 !== undefined) facts.push("wait p99 up to " + seconds(r.p99));
  return facts;
}

const cards = new Map(); // place -> element

function drawPlaces(places, r) {
  const held = places.filter((p) => p.held), waiting = places.filter((p) => !p.held);
  const there = new Set(places.map((p) => p.place));
  for (const [place, e] of cards) {
    if (there.has(place)) continue;
    cards.delete(place);
    if (e.classList.contains("holds")) continue; // the next holder has its place
    e.classList.add("left"); // it stays where it was while it fades
    setTimeout(() => e.remove(), 500);
  }
  fill($("held"), held.map((p) => card(p, r)));
  fill($("waiting"), waiting.map((p, i) => card(p, r, i)));
  $("behind").hidden = !held.length || !waiting.length;
}

// fill has a box contain elements, in order, and among them those that fade. It moves none that is
// where it belongs.
function fill(box, elements) {
  let at = box.firstElementChild;
  for (const e of elements) {
    while (at && at.classList.contains("left")) at = at.nextElementSibling;
    if (at === e) at = at.nextElementSibling;
    else box.insertBefore(e, at);
  }
  while (at) {
    const next = at.nextElementSibling;
    if (!at.classList.contains("left")) at.remove();
    at = next;
  }
}

// setMiddle sets a name on a few lines, without its middle if it is very long.
function setMiddle(e, name) {
  setText(e, name.length > 66 ? name.slice(0, 44) + "…" + name.slice(-20) : name);
  if (e.title !== name) e.title = name;
}

const tail = 8; // letters at the end of a name that are never cut off

// setName sets a name that loses its middle if it does not fit.
function setName(e, name) {
  if (e.textContent === name) return;
  const letters = [...name], n = letters.length - tail;
  if (n < tail) e.replaceChildren(make("span", "head", name));
  else e.replaceChildren(make("span", "head", letters.slice(0, n).join("")), make("span", "tail", letters.slice(n).join("")));
  e.title = name;
}

function newCard() {
  const e = make("div", "card new", null, make("div", "who"), make("div", "does", null, make("span"), make("span")), make("div", "session"), make("div", "acts", null, copyButton()));
  requestAnimationFrame(() => requestAnimationFrame(() => e.classList.remove("new")));
  return e;
}

function card(p, r, i) {
  const e = kept(cards, p.place, newCard);
  const [who, does, session, acts] = e.children, isMember = r.recipe === "group";
  e.classList.toggle("holds", !!p.held);
  e.classList.toggle("stuck", isStuck(p.session, r.path));
  setMiddle(who, isMember ? p.place : p.identity || (p.read ? "(no identity)" : "…"));
  setCopy(acts.firstChild, isMember ? p.place : p.identity || p.place);
  const since = p.held ? p.heldAt || p.since : p.since;
  does.children[0].textContent = isMember ? "member" : (p.held ? "holds" : i ? i + 1 + ". waits" : "next") + (p.shared ? ", shared" : "");
  does.children[1].textContent = since ? (p.held && !p.heldAt && !isMember ? "≤ " : "") + age(since) : "";
  does.children[1].className = p.held && isOld(since) && !lastsLong(r) ? "old" : "";
  does.title = p.held && !p.heldAt && !isMember ? "It had it when zkr looked first: this long ago it joined the line." : "";
  session.textContent = isMember && p.identity || p.session || "";
  session.title = [p.place, p.session].join("\n");
  if (state && state.actions && !isMember && r.recipe !== "shards" && !acts.children[1]) {
    acts.append(button("danger", "evict", () => ask(e.place), "evict " + (p.identity || p.place)));
  }
  e.place = p;
  return e;
}

const isStuck = (session, path) => !!session && !!graph && graph.deadlocks.some((d) => d.sessions.includes(session) && d.paths.includes(path));

const itemRows = new Map(); // ID -> element
const opened = new Map(); // ID -> row with what the item says

function drawItems(items) {
  $("items-box").hidden = !items || !items.length;
  const body = $("items").tBodies[0], elements = [], there = new Set((items || []).map((i) => i.id));
  for (const all of [itemRows, opened]) keepOnly(all, there);
  for (const i of items || []) {
    elements.push(itemRow(i));
    if (opened.has(i.id)) elements.push(opened.get(i.id));
  }
  fill(body, elements);
}

function newItemRow(id) {
  const more = state && state.data ? [dataButton(id)] : [];
  return make("tr", "", null, make("td", "", id, ...more), make("td"), make("td", "number"), make("td", "", null, make("span"), copyButton()), make("td"), make("td"));
}

function itemRow(i) {
  const e = kept(itemRows, i.id, () => newItemRow(i.id));
  setClass(e, isOld(i.taken) ? "stale" : "");
  const [, put, attempts, consumer, taken, failure] = e.cells;
  setText(put, age(i.since));
  setText(attempts, i.attempts ? String(i.attempts) : "");
  setText(consumer.firstChild, i.consumer || "");
  consumer.title = [i.consumer, i.session].filter((text) => text).join("\n");
  setCopy(consumer.lastChild, i.consumer || "");
  setText(taken, i.taken ? age(i.taken) : "");
  setText(failure, i.failure || "");
  failure.title = i.failure || "";
  return e;
}

function dataButton(id) {
  const b = button("", "data", () => toggleData(id, b), "data of " + id);
  b.setAttribute("aria-expanded", "false");
  return b;
}

// toggleData shows what an item says, for which it asks zkr each time, or hides it.
async function toggleData(id, button) {
  const path = picked;
  if (opened.delete(id)) {
    button.setAttribute("aria-expanded", "false");
    return drawLine();
  }
  let says = "", text = "";
  try {
    const reply = await fetch("item?path=" + encodeURIComponent(path) + "&id=" + encodeURIComponent(id));
    if (reply.ok) {
      const item = await reply.json();
      text = item.text;
      says = count(item.size, "byte") + (item.more ? ", of which the last " + item.more + " are not shown" : "");
    } else says = (await reply.text()).trim();
  } catch (e) {
    says = "zkr cannot be reached.";
  }
  if (path !== picked || !itemRows.has(id)) return;
  const cell = make("td", "", null, make("p", "faint", says));
  cell.colSpan = 6;
  if (text) {
    const box = make("pre", "", text);
    box.tabIndex = 0; // it may scroll
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "what " + id + " says");
    cell.append(box);
  }
  opened.set(id, make("tr", "data", null, cell));
  button.setAttribute("aria-expanded", "true");
  say(says);
  drawLine();
}

// --- copies

let copied = null; // the button that was pressed last

function copyButton() {
  const b = button("copy", "copy", () => copy(b));
  return b;
}

// setCopy sets the name that a button copies.
function setCopy(b, name) {
  b.hidden = !name;
  if (b.dataset.copies === name) return;
  b.dataset.copies = name;
  b.textContent = "copy";
  b.setAttribute("aria-label", "copy " + name);
}

async function copy(b) {
  const name = b.dataset.copies;
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(name);
  } catch (e) { // browsers offer it by HTTPS and at localhost only, and may forbid it
    isCopied = copyOld(name, b);
  }
  if (copied) copied.textContent = "copy";
  copied = b;
  b.textContent = isCopied ? "copied" : "not copied";
  say(isCopied ? "copied " + name : "the browser does not allow copies");
}

function copyOld(name, focused) {
  const e = make("textarea", "", null);
  e.value = name;
  document.body.append(e);
  e.select();
  const isCopied = document.execCommand("copy");
  e.remove();
  focused.focus();
  return isCopied;
}

// say has a screen reader say a text.
function say(text) {
  $("said").textContent = text;
}

// --- history

function drawCharts() {
  const r = rows.get(picked);
  const points = detail ? detail.points : !picked && state ? state.points : [];
  const isQueue = r && r.recipe === "queue";
  $("charts").hidden = !points.length || r && !isQueue && !detail.watched;
  $("chart2-figure").hidden = isQueue;
  $("chart1-title").textContent = isQueue ? "Items, 15 minutes" : "Acquisitions/s, 15 minutes";
  $("chart2-title").textContent = "Wait, 99th percentile, 15 minutes";
  drawChart($("chart1"), points.map((p) => isQueue ? p.len || 0 : p.rate), isQueue ? String : perSecond);
  if (!isQueue) drawChart($("chart2"), points.map((p) => p.p99), seconds);
}

function drawChart(svg, values, text) {
  const width = svg.clientWidth || 380, height = 76, bottom = 72, top = 14;
  const most = Math.max(...values.map((v) => v || 0), 0);
  svg.setAttribute("viewBox", "0 0 " + width + " " + height);
  svg.replaceChildren(makeSVG("line", { x1: 0, y1: bottom, x2: width, y2: bottom }));
  const step = width / values.length;
  values.forEach((v, i) => {
    if (v === undefined) return;
    const h = most ? v / most * (bottom - top) : 0;
    if (h || v === 0 && text === seconds) svg.append(makeSVG("rect", { x: i * step, y: bottom - Math.max(h, 1), width: step - 0.8, height: Math.max(h, 1) }));
  });
  svg.append(makeSVG("text", { x: 0, y: 9 }, most ? text(most) : "none"));
}

// --- who waits for whom

const boxWidth = 176, boxHeight = 40, columnGap = 96, rowGap = 22;

// layOut gives each session a place. A deadlock has a row of its own, in its order. Those that
// wait stand left of those for whom they wait, and below come the others, side by side.
function layOut(g) {
  const at = new Map(), step = boxWidth + columnGap;
  const put = (s, column, row, width) => at.set(s, { x: 8 + column * width, y: 26 + row * (boxHeight + rowGap), column });
  let row = 0;
  for (const d of g.deadlocks) {
    const members = d.sessions.filter((s) => g.nodes.some((n) => n.session === s) && !at.has(s));
    members.forEach((s, i) => put(s, i, row, step));
    if (members.length) row++;
  }
  const depth = new Map();
  const depthOf = (s, path) => {
    if (depth.has(s)) return depth.get(s);
    if (path.has(s)) return 0;
    path.add(s);
    const waits = g.edges.filter((e) => e.to === s && !at.has(e.from)).map((e) => depthOf(e.from, path) + 1);
    path.delete(s);
    const d = Math.max(0, ...waits);
    depth.set(s, d);
    return d;
  };
  const linked = new Set(g.edges.flatMap((e) => [e.from, e.to]));
  const chained = g.nodes.map((n) => n.session).filter((s) => !at.has(s) && linked.has(s));
  const used = []; // rows in each column
  for (const s of chained) {
    const column = Math.min(3, depthOf(s, new Set()));
    used[column] = used[column] === undefined ? row : used[column] + 1;
    put(s, column, used[column], step);
  }
  row = Math.max(row, ...used.filter((r) => r !== undefined).map((r) => r + 1));
  g.nodes.map((n) => n.session).filter((s) => !at.has(s)).forEach((s, i) => put(s, i % 4, row + Math.floor(i / 4), boxWidth + 12));
  return at;
}

// missing says what the page does not know, or nothing if it knows all.
function missing() {
  if (!state) return "Nothing has been read yet.";
  if (!state.walked) return "Reading: " + count(state.known, "recipe") + " found so far, " + state.looked + " of them read.";
  const parts = [];
  if (state.looked < state.known) parts.push("Reading: " + state.looked + " of " + count(state.known, "recipe") + ".");
  const unread = Math.max(state.unread, graph ? graph.unread : 0);
  if (unread) parts.push(count(unread, "place") + " yet to be read.");
  return parts.join(" ");
}

// leftOut says what the page will not show.
function leftOut() {
  const parts = [];
  if (state && state.left) parts.push("Not shown: " + count(state.left, "recipe") + " or more beyond --lines " + state.lines + ".");
  if (state && state.skipped) parts.push(count(state.skipped, "znode") + " could not be looked at.");
  return parts.join(" ");
}

function drawCalm() {
  const unknown = [missing(), leftOut()].filter((text) => text).join(" ");
  const parts = [];
  if (!graph || graph.nodes.length === 0) {
    parts.push(!unknown ? "Nobody waits." : state && state.walked ? "Nobody waits in what has been read." : "");
  } else {
    if (graph.deadlocks.length) parts.push("A process whose calls have nothing to do with each other can look like part of a deadlock.");
    if (!graph.edges.length) parts.push("No session that holds something waits for another one.");
    if (graph.hidden) parts.push(graph.hidden + " more sessions are not drawn.");
  }
  if (unknown) parts.push(unknown, "A deadlock may be missing.");
  setText($("calm"), parts.filter((text) => text).join(" "));
}

function setClass(e, name) {
  if (e.className !== name) e.className = name;
}

// setText sets a text that has changed. A live region would be read out again otherwise, and a
// table of thousands of rows be laid out.
function setText(e, text) {
  if (e.textContent === text) return false;
  e.textContent = text;
  return true;
}

// tell shows a text, or hides where it stands if there is none.
function tell(id, text) {
  setText($(id), text);
  $(id).hidden = !text;
}

function drawGraph() {
  const svg = $("graph"), at = layOut(graph);
  drawDeadlocks();
  const red = new Set(graph.deadlocks.flatMap((d) => d.sessions));
  drawCalm();
  let right = 0, low = 0;
  svg.replaceChildren();
  for (const p of at.values()) { right = Math.max(right, p.x + boxWidth); low = Math.max(low, p.y + boxHeight); }
  for (const e of graph.edges) drawEdge(svg, e, at.get(e.from), at.get(e.to));
  for (const n of graph.nodes) {
    const p = at.get(n.session), group = makeSVG("g", { "class": red.has(n.session) ? "node red" : "node" });
    group.append(
      makeSVG("rect", { x: p.x, y: p.y, width: boxWidth, height: boxHeight, rx: 4 }),
      makeSVG("text", { x: p.x + 8, y: p.y + 16 }, cut(n.identity || n.session, 24)),
      makeSVG("text", { x: p.x + 8, y: p.y + 31, "class": "small" }, cut("holds " + n.holds.join(", "), n.waiters ? 20 : 29)));
    if (n.waiters) group.append(makeSVG("text", { x: p.x + boxWidth - 8, y: p.y + 31, "class": "small", "text-anchor": "end" }, "+" + n.waiters + " wait"));
    group.append(makeSVG("title", {}, n.identity + "\n" + n.session + "\nholds " + n.holds.join("\n")));
    svg.append(group);
  }
  const width = Math.max(right + 8, 760), height = low + 18;
  svg.setAttribute("viewBox", "0 0 " + width + " " + height);
  svg.style.maxWidth = width + "px";
  svg.style.display = graph.nodes.length ? "block" : "none";
  svg.setAttribute("aria-label", count(graph.nodes.length, "session") + ", " + count(graph.edges.length, "wait") + " between them");
}

// cut cuts out the middle.
const cut = (text, n) => text.length > n ? text.slice(0, Math.ceil(n / 2)) + "…" + text.slice(1 - Math.floor(n / 2)) : text;

// drawEdge draws an arrow to the right through the gap, and one to the left below the boxes.
function drawEdge(svg, e, from, to) {
  const kind = e.red ? " red" : "";
  let d, label, tip;
  if (to.column > from.column) {
    const x1 = from.x + boxWidth, y1 = from.y + boxHeight / 2 - 6, x2 = to.x, y2 = to.y + boxHeight / 2 - 6;
    const bend = Math.max(30, (x2 - x1) / 2);
    d = `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 6} ${y2}`;
    label = [(x1 + x2) / 2, (y1 + y2) / 2 - 5];
    tip = `M${x2} ${y2}l-8 -4v8z`;
  } else {
    const x1 = from.x + boxWidth / 2, x2 = to.x + boxWidth / 2 + (from === to ? 30 : 0);
    const y1 = from.y + boxHeight, y2 = to.y + boxHeight, deep = Math.max(y1, y2) + 18;
    d = `M${x1} ${y1}C${x1} ${deep} ${x2} ${deep} ${x2} ${y2 + 6}`;
    label = [(x1 + x2) / 2, deep - 1];
    tip = `M${x2} ${y2}l-4 8h8z`;
  }
  svg.append(makeSVG("path", { "class": "edge" + kind, d }), makeSVG("path", { "class": "tip" + kind, d: tip }),
    makeSVG("text", { "class": "label" + kind, x: label[0], y: label[1] }, cut(e.path, 26)));
}

function drawDeadlocks() {
  $("deadlocks").replaceChildren(...graph.deadlocks.map((d) =>
    make("div", "deadlock", null, make("b", "", "DEADLOCK"), count(d.sessions.length, "session") + " wait for each other at " + [...new Set(d.paths)].join(", "))));
}

// --- what the page says of itself

function drawConnection() {
  const lost = !$("lost").hidden, on = state && state.connected && !lost;
  setText($("connection"), on ? "connected to " + state.server : lost ? "no connection to zkr" : state ? "disconnected" : "");
  $("connection").className = on ? "" : "off";
}

function drawStatus() {
  $("root").textContent = state.root;
  document.title = (graph && graph.deadlocks.length ? "DEADLOCK " : "") + "zkr " + state.root;
  drawConnection();
  drawCalm();
  tell("reading", missing());
  tell("left-out", leftOut());
  tell("disconnected", state.connected ? "" : "zkr has had no connection to the servers for " + age(state.since) + ". The page shows what was known before.");
  tell("failed", state.error || "");
  const cost = ["Cost to the ensemble, for all browsers: " + count(state.watches + state.dirs, "watch", "watches") +
    ", " + perSecond(state.reads) + " requests/s, at most " + state.mostReads + "."];
  if (state.walked) cost.push("Looked at all znodes " + age(state.walked) + " ago.");
  cost.push("Waits are known to the second.", state.actions ? "Actions are allowed, with the token." : "Read only.");
  $("cost").textContent = cost.join(" ");
}

// --- actions

let asked = null;

function ask(place) {
  asked = { path: picked, place: place.place, holder: !!place.held };
  $("question").textContent = "Evict " + (place.identity || place.place) + ", which " + (place.held ? "holds " : "waits for ") + picked + "?";
  $("consequence").textContent = place.held ?
    "The next one holds at once, perhaps before this process knows. Evict a holder only if its process is dead or its writes are fenced." :
    "Its call returns an error.";
  $("token").value = token;
  tell("answer", "");
  $("ask").showModal();
}

async function evict() {
  token = $("token").value;
  let text;
  try {
    const reply = await fetch("evict", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Zkr-Token": token },
      body: JSON.stringify(asked),
    });
    if (reply.ok) { $("ask").close(); return; }
    text = (await reply.text()).trim();
    if (reply.status === 403) token = "";
  } catch (e) {
    text = "zkr cannot be reached.";
  }
  tell("answer", text);
}

$("confirm").addEventListener("click", evict);
$("copy").addEventListener("click", () => copy($("copy")));
$("cancel").addEventListener("click", () => $("ask").close());
$("ask").querySelector("form").addEventListener("submit", (e) => { e.preventDefault(); evict(); });
$("filter").addEventListener("input", () => { drawTree(); find(); });
$("sort").addEventListener("change", drawTree);
$("home").addEventListener("click", () => pick(""));
window.addEventListener("hashchange", () => {
  const path = pathInAddress();
  if (path !== picked) pick(path);
});
setInterval(() => {
  $("now").textContent = new Date(now()).toLocaleTimeString("en-GB");
  if (state) drawStatus();
  drawTroubles();
  tick();
  drawLine();
}, 1000);
setInterval(find, 5000);
drawTree();
drawLine();
connect();
