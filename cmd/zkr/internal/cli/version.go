//go:build unix

package cli

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version returns the command that prints the program's version.
func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: "Print the version of zkr. A binary that was not built from a tag has a pseudo-version, or\n" +
			"(devel) if it was built without version control.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.print(struct {
				Version string `json:"version"`
			}{built()}, func(w io.Writer) { fmt.Fprintln(w, built()) })
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
