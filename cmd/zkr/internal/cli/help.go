//go:build unix

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/view"
)

const exitStatuses = `0    success
1    another failure
64   wrong usage
69   no server
70   the guard cannot be started
74   standard output cannot be written
75   not acquired, evicted while it waited; the gate is shut (or -E)
76   the lock was lost while the command ran (or --lost-exit-code)
77   the servers refuse it: the credential is wrong, or the ACL
78   the configuration is wrong
126  the command cannot be run
127  the command is not found
128+s  signal s ended zkr or the command

A command that zkr runs may end with any status, which is zkr's then.`

const files = `zkr/zkr.env in $XDG_CONFIG_HOME or ~/.config: lines of NAME=value with the names of the environment.
Another file: --config, or $ZKR_CONFIG. It must belong to you or root. Others must not be able to
write it, nor to read it if it has secrets.`

// environment describes the variables.
func environment() string {
	var b strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&b, "%s\n    %s", s.env, s.usage)
		if s.flag != "" {
			fmt.Fprintf(&b, " (--%s)", s.flag)
		}
		if s.preset != "" {
			fmt.Fprintf(&b, "; default %s", s.preset)
		}
		b.WriteByte('\n')
	}
	b.WriteString("ZKR_PATH, ZKR_TOKEN, ZKR_PLACE, ZKR_SESSION, ZKR_SLOT, ZKR_PERIOD\n    zkr sets them for the command that it runs.")
	return b.String()
}

// addTopics adds help topics, and takes what they say out of the help of each command.
func (a *app) addTopics(root *cobra.Command) {
	root.AddCommand(
		&cobra.Command{Use: "settings", Short: "Flags of all commands, the environment and the file", Long: "Settings come from flags, the environment and a file, in this order. There is no flag for a secret.\n\n" +
			root.PersistentFlags().FlagUsagesWrapped(100) + "\n" + environment() + "\n\n" + files},
		&cobra.Command{Use: "exit-status", Short: "Exit statuses", Long: exitStatuses},
	)
	usage := strings.Replace(root.UsageTemplate(), "{{if .HasAvailableLocalFlags}}",
		"{{if not .HasParent}}\n\nFlags of all commands: zkr help settings{{else if .HasAvailableLocalFlags}}", 1)
	begin := strings.Index(usage, "{{if .HasAvailableInheritedFlags}}")
	end := begin + strings.Index(usage[max(0, begin):], "{{end}}") + len("{{end}}")
	if begin >= 0 {
		root.SetUsageTemplate(usage[:begin] + "{{if .HasAvailableInheritedFlags}}\n\nFlags of all commands: zkr help settings{{end}}" + usage[end:])
	}
}

// man returns the hidden command that writes the man pages.
func (a *app) man() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the man pages into a directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			c.Root().DisableAutoGenTag = true
			return writeMan(c.Root(), args[0])
		},
	}
}

// writeMan writes the page of a command, and those of its commands.
func writeMan(c *cobra.Command, dir string) error {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if err := writeMan(sub, dir); err != nil {
			return err
		}
	}
	var page bytes.Buffer
	if err := doc.GenMan(c, &doc.GenManHeader{Title: "ZKR", Section: "1", Source: "zkrecipes"}, &page); err != nil {
		return err
	}
	for _, s := range [][2]string{{"EXIT STATUS", exitStatuses}, {"ENVIRONMENT", environment()}, {"FILES", files}} {
		text := strings.ReplaceAll(strings.ReplaceAll(s[1], `\`, `\e`), "-", `\-`)
		fmt.Fprintf(&page, ".SH %s\n.nf\n%s\n.fi\n", s[0], text)
	}
	return os.WriteFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"), page.Bytes(), 0o644)
}

const completionTime = 2 * time.Second

// addCompletion has a shell complete paths, places and items from the servers, which it asks for
// at most completionTime.
func (a *app) addCompletion(c *cobra.Command) {
	_, operands, _ := strings.Cut(c.Use, " ")
	if !strings.Contains(operands, "PATH") && !strings.Contains(operands, "ROOT") {
		return
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		_, runs := c.Annotations[runsCommand]
		switch {
		case len(args) == 0:
			return a.complete(func(ctx context.Context, client *zkrecipes.Client) []string { return znodes(ctx, client, begun) }), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		case runs:
			return nil, cobra.ShellCompDirectiveDefault
		case strings.Contains(operands, "PLACE") && len(args) == 1:
			return a.complete(func(ctx context.Context, client *zkrecipes.Client) []string { return placesAt(ctx, client, args[0]) }), cobra.ShellCompDirectiveNoFileComp
		case strings.Contains(operands, "ID"):
			return a.complete(func(ctx context.Context, client *zkrecipes.Client) []string { return itemsOf(ctx, client, args[0]) }), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// complete returns what f finds on the servers, and nothing if they cannot be asked.
func (a *app) complete(f func(context.Context, *zkrecipes.Client) []string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	if a.config.load() != nil {
		return nil
	}
	servers, opts, err := a.options(ctx)
	if err != nil {
		return nil
	}
	opts.Logger = nil
	client, err := zkrecipes.Dial(ctx, servers, opts)
	if err != nil {
		return nil
	}
	defer client.Close()
	return f(ctx, client)
}

// znodes returns the paths that begin so.
func znodes(ctx context.Context, client *zkrecipes.Client, begun string) (paths []string) {
	dir := "/" + strings.TrimPrefix(begun[:strings.LastIndex(begun, "/")+1], "/")
	at := strings.TrimSuffix(dir, "/")
	if at == "" {
		at = "/"
	}
	names, _, _ := client.Children(ctx, at)
	for _, name := range names {
		if p := dir + name; strings.HasPrefix(p, begun) && view.Clean(p) == p && p != "/zookeeper" {
			paths = append(paths, p)
		}
	}
	return paths
}

func placesAt(ctx context.Context, client *zkrecipes.Client, path string) (names []string) {
	l, _ := view.ReadPath(ctx, client, path)
	for _, p := range l.Places {
		names = append(names, p.Name+"\t"+l.Does(p)+" "+view.Clean(view.Brief(p.Identity)))
	}
	return names
}

func itemsOf(ctx context.Context, client *zkrecipes.Client, path string) (ids []string) {
	for e, err := range zkrecipes.NewQueue(client, path, nil).Items(ctx) {
		if err != nil || len(ids) == 100 {
			break
		}
		ids = append(ids, string(e.ID)+"\t"+brief(e.Data, 40))
	}
	return ids
}
