//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

// description is all that there is about a path, as it is printed.
type description struct {
	view.Line
	Created   time.Time         `json:"created"`
	Modified  time.Time         `json:"modified"`
	Version   int32             `json:"version"`
	Children  int32             `json:"children"`
	Data      string            `json:"data"` // its beginning
	Bytes     int               `json:"bytes"`
	ACL       []string          `json:"acl,omitempty"`
	Addresses map[string]string `json:"addresses,omitempty"` // by session
	Dead      int               `json:"dead,omitempty"`      // dead letters of a queue
	Advice    []string          `json:"advice,omitempty"`
}

func (a *app) describe() *cobra.Command {
	return &cobra.Command{
		Use:   "describe PATH",
		Short: "Tell all that there is about a path, and what to do",
		Long: "Describe prints who holds and waits at PATH, as zkr who does, with the addresses of their clients,\n" +
			"what the znode is, its ACL, and what you can do. Servers tell addresses only if they allow the\n" +
			"command cons (4lw.commands.whitelist), and zkr asks for them without TLS only.",
		Args: cobra.ExactArgs(1),
		RunE: a.on(func(ctx context.Context, client *zkrecipes.Client, args []string) error {
			d, err := a.readDescription(ctx, client, args[0])
			if err != nil {
				return err
			}
			return a.print(d, d.write)
		}),
	}
}

func (a *app) readDescription(ctx context.Context, client *zkrecipes.Client, path string) (*description, error) {
	data, stat, err := client.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	d := &description{
		Created: time.UnixMilli(stat.Ctime).UTC(), Modified: time.UnixMilli(stat.Mtime).UTC(), Version: stat.Version,
		Children: stat.NumChildren, Data: brief(data, 200), Bytes: len(data), Addresses: map[string]string{},
	}
	if d.Line, err = view.ReadPath(ctx, client, path); errors.Is(err, zkrecipes.ErrUnused) {
		d.Line, err = view.Line{Path: path, Places: []view.Place{}}, nil
	}
	if err != nil {
		return nil, err
	}
	acl, err := client.ACL(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return nil, err
	}
	for _, entry := range acl {
		d.ACL = append(d.ACL, entryText(entry))
	}
	if d.Recipe == zkrecipes.RecipeQueue {
		d.Dead, _ = zkrecipes.NewQueue(client, path, nil).DeadLetters().Len(ctx) // none if there is no such queue
	}
	known := a.addresses(ctx)
	for _, p := range d.Places {
		if address := known[p.Session]; address != "" {
			d.Addresses[p.Session.String()] = address
		}
	}
	d.Advice = advice(d.Line, d.Dead)
	return d, nil
}

// entryText writes an entry of an ACL as zkCli does.
func entryText(e zk.ACL) string {
	var perms strings.Builder
	for i, letter := range "rwcda" {
		if e.Perms&(1<<i) != 0 {
			perms.WriteRune(letter)
		}
	}
	return e.Scheme + ":" + view.Clean(e.ID) + ":" + perms.String()
}

// addresses returns where the clients of sessions are, as far as the servers tell.
func (a *app) addresses(ctx context.Context) map[view.Session]string {
	found := map[view.Session]string{}
	if a.isTLS {
		return found
	}
	for _, r := range a.ask(ctx, lookTime, "cons") {
		for _, m := range connection.FindAllStringSubmatch(r.text, -1) {
			if id, err := strconv.ParseUint(m[2], 0, 64); err == nil {
				found[view.Session(id)] = m[1]
			}
		}
	}
	return found
}

// connection is a line of cons (org.apache.zookeeper.server.ServerCnxn, dumpConnectionInfo).
var connection = regexp.MustCompile(`(?m)^ ?/(\S+?)\[\d+\]\(.*\bsid=(0x[0-9a-f]+)`)

// advice says what one can do about a line.
func advice(l view.Line, dead int) (lines []string) {
	held := l.Held()
	waits := len(l.Places) > held
	switch {
	case l.Recipe == zkrecipes.RecipeQueue:
		if held > 0 {
			lines = append(lines, "An item that stays taken: end its consumer's process, and another one takes it. One that hangs each consumer: zkr queue bury "+l.Path+" ID, which is the place")
		}
		if l.Len > held && l.Idle == 0 {
			lines = append(lines, view.Count(l.Len-held, "item is free", "items are free")+", and no consumer waits for one: does one run, and do those that run hang?")
		}
		if dead > 0 {
			lines = append(lines, fmt.Sprintf("%d dead: zkr queue ls --dead %s says why; zkr queue redrive %s moves them back", dead, l.Path, l.Path))
		}
	case l.Recipe == zkrecipes.RecipeGate:
		lines = append(lines, "Let go those who wait: zkr gate open "+l.Path)
	case l.CheckEvict() == nil && waits:
		lines = append(lines, "Does the holder wait for a waiter? zkr graph names deadlocks.", "Evict a waiter, whose call returns an error: zkr evict "+l.Path+" PLACE")
		if held > 0 {
			lines = append(lines, "Look at the holder's process, and end it if it hangs. If you cannot reach it: zkr evict --holder "+l.Path+" PLACE")
		}
	}
	return lines
}

// write writes the description as text.
func (d *description) write(w io.Writer) {
	if d.Recipe == "" {
		fmt.Fprintf(w, "%s  used by no recipe\n", view.Clean(d.Path))
	} else {
		printPlaces(w, d.Line)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	for _, session := range slices.Sorted(maps.Keys(d.Addresses)) {
		row("address", "%s  %s", session, d.Addresses[session])
	}
	row("znode", "version %d, created %s, changed %s, %s", d.Version, d.Created.Format(time.RFC3339), d.Modified.Format(time.RFC3339), view.Count(int(d.Children), "child", "children"))
	row("data", "%d bytes: %s", d.Bytes, d.Data)
	for _, entry := range d.ACL {
		row("acl", "%s", entry)
	}
	for _, line := range d.Advice {
		row("advice", "%s", view.Clean(line))
	}
	_ = t.Flush()
}
