//go:build unix

package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// mostShown is how many places of a line the page shows, and mostGone how many members that have
// gone.
const (
	mostShown = 200
	mostGone  = 20
)

// message is an event for a browser: what has changed since the last one. Times are in
// milliseconds since 1970, and 0 is none.
type message struct {
	Now    int64             `json:"now"`
	Status *status           `json:"status,omitempty"`
	Rows   []json.RawMessage `json:"rows,omitempty"`
	Gone   []string          `json:"gone,omitempty"`
	Line   json.RawMessage   `json:"line,omitempty"`
	Graph  json.RawMessage   `json:"graph,omitempty"`
}

// status is about the page itself.
type status struct {
	Root      string  `json:"root"`
	Connected bool    `json:"connected"`
	Server    string  `json:"server"`
	Since     int64   `json:"since"`
	Watches   int     `json:"watches"`
	Reads     float64 `json:"reads"` // requests a second
	MostReads int     `json:"mostReads"`
	Walked    int64   `json:"walked"` // when the last walk ended
	Known     int     `json:"known"`  // recipes
	Looked    int     `json:"looked"` // those of which it is known who stands in them
	Unread    int     `json:"unread"` // places whose znode is yet to be read
	Lines     int     `json:"lines"`  // Options.Lines
	Dirs      int     `json:"dirs"`   // directories that are watched for new recipes
	Skipped   int     `json:"skipped"`
	Left      int     `json:"left"`
	Error     string  `json:"error,omitempty"`
	Actions   bool    `json:"actions"`
	Data      bool    `json:"data"`
	Stale     int64   `json:"stale"`
	Points    []point `json:"points"` // of all lines
}

// row is a line in the tree.
type row struct {
	Path     string           `json:"path"`
	Recipe   zkrecipes.Recipe `json:"recipe"`
	Holders  int              `json:"holders"`
	Waiters  int              `json:"waiters"`
	Size     int              `json:"size,omitempty"`
	Held     int64            `json:"held,omitempty"`    // since when the oldest holds
	Waiting  int64            `json:"waiting,omitempty"` // since when the first waits
	Len      int              `json:"len,omitempty"`
	Item     int64            `json:"item,omitempty"`   // when the first item was put
	Dead     int              `json:"dead,omitempty"`   // dead letters
	Missed   int              `json:"missed,omitempty"` // members that are there no more
	Gone     []string         `json:"gone,omitempty"`   // the first of them
	GoneAt   int64            `json:"goneAt,omitempty"` // when the last of them was seen to have gone
	Rate     float64          `json:"rate,omitempty"`
	P99      *float64         `json:"p99,omitempty"`
	Deadlock bool             `json:"deadlock,omitempty"`
	Failed   string           `json:"failed,omitempty"`
}

// detail is what the row does not have of the line that a browser shows.
type detail struct {
	Places  []shownPlace `json:"places"`
	More    int          `json:"more,omitempty"`
	Says    string       `json:"says,omitempty"` // a value
	Items   []shownItem  `json:"items,omitempty"`
	Points  []point      `json:"points"`
	Watched bool         `json:"watched"`
}

type shownPlace struct {
	Place    string `json:"place"`
	Identity string `json:"identity"`
	Session  string `json:"session,omitempty"`
	Since    int64  `json:"since,omitempty"` // when it joined
	Held     bool   `json:"held,omitempty"`
	HeldAt   int64  `json:"heldAt,omitempty"` // when it was seen to get it
	Shared   bool   `json:"shared,omitempty"`
	Read     bool   `json:"read,omitempty"`
}

type shownItem struct {
	ID       string `json:"id"`
	Since    int64  `json:"since"`
	Attempts int    `json:"attempts"`
	Consumer string `json:"consumer,omitempty"`
	Session  string `json:"session,omitempty"`
	Taken    int64  `json:"taken,omitempty"`
	Failure  string `json:"failure,omitempty"`
}

// rendered is a value as JSON, and the edition in which it was new.
type rendered struct {
	json    json.RawMessage
	edition int
}

// set renders a value, as part of that edition if it has changed.
func (r *rendered) set(v any, edition int) {
	text, err := json.Marshal(v)
	if err == nil && !bytes.Equal(text, r.json) {
		r.json, r.edition = text, edition
	}
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// deadSuffix is what the path of a queue's dead letters ends with.
const deadSuffix = "-dead"

// newRow returns the row of a line. The caller holds mu.
func (h *hub) newRow(f *followed, now time.Time) row {
	u := f.usage
	r := row{
		Path: f.path, Recipe: f.recipe, Holders: u.Holders, Waiters: u.Waiters, Size: u.Size,
		Held: millis(u.HeldSince), Waiting: millis(u.WaitingSince), Len: u.Len, Item: millis(u.ItemSince),
		Rate: f.history.rate(now), P99: f.history.waits(now), Deadlock: h.deadlocked[f.path], Failed: view.Clean(f.failed),
	}
	dead := h.lines[f.path+deadSuffix]
	if f.recipe == zkrecipes.RecipeQueue && dead != nil && dead.recipe == zkrecipes.RecipeQueue {
		r.Dead = dead.usage.Len
	}
	for _, p := range f.missing(now) {
		r.Missed++
		if len(r.Gone) < mostGone {
			r.Gone = append(r.Gone, view.Clean(p.Name))
		}
		r.GoneAt = millis(p.goneAt)
	}
	if f.looked && f.failed == "" {
		f.countPlaces(&r)
	}
	return r
}

// countPlaces replaces what the last walk has counted by what the watch has seen since.
func (l *line) countPlaces(r *row) {
	r.Holders, r.Waiters = 0, 0
	var held, waiting time.Time
	for _, p := range l.places {
		if p.Held {
			r.Holders++
			held = earlier(held, cmp.Or(p.heldAt, p.Since))
		} else {
			r.Waiters++
			waiting = earlier(waiting, cmp.Or(p.Since, p.arrived))
		}
	}
	if r.Holders == 0 || !held.IsZero() {
		r.Held = millis(held)
	}
	if r.Waiters == 0 || !waiting.IsZero() {
		r.Waiting = millis(waiting)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func newDetail(f *followed, now time.Time) detail {
	d := detail{
		Places: []shownPlace{}, Says: f.polled.says, Items: f.polled.items, Points: f.history.points(now),
		Watched: len(watchedDirs(f.recipe)) > 0 && f.recipe != zkrecipes.RecipeGroup,
	}
	places := slices.Concat(f.places, f.polled.places)
	for _, p := range places[:min(len(places), mostShown)] {
		d.Places = append(d.Places, f.shownPlace(p))
	}
	d.More = len(places) - len(d.Places) + f.polled.more
	return d
}

func (l *line) shownPlace(p *place) shownPlace {
	s := shownPlace{
		Place: p.Name, Identity: p.Identity, Session: sessionText(p.Session), Since: millis(cmp.Or(p.Since, p.arrived)),
		Held: p.Held, HeldAt: millis(p.heldAt), Shared: p.Shared, Read: p.read,
	}
	if p.Held && l.recipe == zkrecipes.RecipeElection {
		s.Place = leader // which Client.Evict deletes
	}
	return s
}

// sessionText returns a session as text, or "" if it is not known.
func sessionText(s view.Session) string {
	if s == 0 {
		return ""
	}
	return s.String()
}

// newStatus returns what the page says of itself. The caller holds mu.
func (h *hub) newStatus(now time.Time) *status {
	s := h.client.Status()
	st := &status{
		Root: h.opts.Root, Connected: s.Connected, Server: s.Server, Since: millis(s.Since),
		Reads: h.perSecond, MostReads: h.opts.Requests, Walked: millis(h.walked), Skipped: h.skipped, Left: h.left,
		Lines: h.opts.Lines, Dirs: len(h.dirs),
		Error: view.Clean(h.lastErr), Actions: h.opts.Token != "", Data: h.opts.Data, Stale: h.opts.Stale.Milliseconds(),
		Points: h.total.points(now),
	}
	for _, f := range h.lines {
		if !f.isDeaf {
			st.Watches += len(watchedDirs(f.recipe))
		}
	}
	st.Known, st.Looked, st.Unread = h.progress()
	return st
}

// since returns what is new for a browser that has got all editions up to one, and has the rows
// of these paths. next is closed when there is another edition.
func (h *hub) since(last int, has map[string]bool, shown string, withStatus bool) (m message, edition int, next <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	m.Now = now.UnixMilli()
	for path, f := range h.lines {
		if f.row.edition > last {
			m.Rows = append(m.Rows, f.row.json)
			has[path] = true
		}
	}
	for path := range has {
		if h.lines[path] == nil {
			m.Gone = append(m.Gone, path)
			delete(has, path)
		}
	}
	if f := h.lines[shown]; f != nil && f.detail.edition > last {
		m.Line = f.detail.json
	}
	if h.graph.edition > last {
		m.Graph = h.graph.json
	}
	if withStatus {
		m.Status = h.newStatus(now)
	}
	return m, h.edition, h.next
}
