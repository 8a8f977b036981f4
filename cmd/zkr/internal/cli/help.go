//go:build unix

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
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

const environment = `The flags of all commands (zkr help settings) are also variables: --session-timeout is
ZKR_SESSION_TIMEOUT. These have no flag:
ZKR_AUTH           credential, scheme:data, as digest:user:password
ZKR_SASL_PASSWORD  password of --sasl-user
zkr sets ZKR_PATH, ZKR_TOKEN, ZKR_PLACE, ZKR_SESSION, ZKR_SLOT and ZKR_PERIOD for the command that it runs.`

// addTopics adds help topics, and takes what they say out of the help of each command.
func addTopics(root *cobra.Command) {
	root.AddCommand(
		&cobra.Command{Use: "settings", Short: "Flags of all commands, the environment and the file", Long: "Settings come from flags, the environment and a file, in this order. There is no flag for a secret.\n\n" +
			root.PersistentFlags().FlagUsagesWrapped(100) + "\n" + environment + "\n\n" + files},
		&cobra.Command{Use: "exit-status", Short: "Exit statuses", Long: exitStatuses},
	)
	const elsewhere = "Flags of all commands: zkr help settings"
	root.SetUsageTemplate(strings.NewReplacer(
		"{{if .HasAvailableLocalFlags}}", "{{if not .HasParent}}\n\n"+elsewhere+"{{else if .HasAvailableLocalFlags}}",
		"Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}", elsewhere).Replace(root.UsageTemplate()))
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
			if err := doc.GenManTree(c.Root(), &doc.GenManHeader{Title: "ZKR", Section: "1", Source: "zkrecipes"}, args[0]); err != nil {
				return err
			}
			end := "" // of each page: what concerns all commands
			for _, s := range [][2]string{{"EXIT STATUS", exitStatuses}, {"ENVIRONMENT", environment}, {"FILES", files}} {
				end += fmt.Sprintf(".SH %s\n.nf\n%s\n.fi\n", s[0], strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s[1]))
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "zkr*.1"))
			for _, page := range pages {
				text, e := os.ReadFile(page)
				if err = cmp.Or(err, e); err == nil {
					err = os.WriteFile(page, append(text, end...), 0o644)
				}
			}
			return err
		},
	}
}

const completionTime = 2 * time.Second

// addCompletion has a shell complete paths, places and items from the servers, which it asks for
// at most completionTime.
func (a *app) addCompletion(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.addCompletion(sub)
	}
	_, operands, _ := strings.Cut(c.Use, " ")
	if !strings.Contains(operands, "PATH") && !strings.Contains(operands, "ROOT") {
		return
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		_, runs := c.Annotations[runsCommand]
		switch {
		case len(args) == 0:
			return a.complete(znodes, begun), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		case runs:
			return nil, cobra.ShellCompDirectiveDefault
		case strings.Contains(operands, "PLACE") && len(args) == 1:
			return a.complete(placesAt, args[0]), cobra.ShellCompDirectiveNoFileComp
		case strings.Contains(operands, "ID"):
			return a.complete(itemsOf, args[0]), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// complete returns what f finds on the servers at a path, and nothing if they cannot be asked.
func (a *app) complete(f func(context.Context, *zkrecipes.Client, string) []string, path string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	if a.config.load(ctx) != nil {
		return nil
	}
	client, err := a.dial(ctx)
	if err != nil {
		return nil
	}
	defer client.Close()
	return f(ctx, client, path)
}

// znodes returns the paths that begin so.
func znodes(ctx context.Context, client *zkrecipes.Client, begun string) (paths []string) {
	dir := "/" + strings.TrimPrefix(begun[:strings.LastIndex(begun, "/")+1], "/")
	names, _, _ := client.Children(ctx, path.Clean(dir))
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

// version returns the command that prints the program's version.
func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: "Print the version of zkr. A binary that was not built from a tag has a pseudo-version, or\n" +
			"(devel) if it was built without version control.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.print(map[string]string{"version": built()}, func(w io.Writer) { fmt.Fprintln(w, built()) })
		},
	}
}

// built returns the version.
func built() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
