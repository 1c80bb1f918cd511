package tally

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// versionCommand returns `caddy rate-limit version`.
func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Prints the versions of the rate limiter, of Caddy and of the database",
		Long: `Prints the versions of the rate limiter, of the Caddy that it is built into, of Go
and of the databases that it makes, and whether there can be a journal on this
platform. No running Caddy is asked.`,
		Example: "  caddy rate-limit version --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("got %q: expected caddy rate-limit version", args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				return out.Encode(runningVersions())
			}
			return runningVersions().write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print JSON")
	return cmd
}

// write prints the versions for people.
func (v versions) write(w io.Writer) error {
	journal := "none on this platform: each charge is a transaction"
	if v.Journal {
		journal = "possible on this platform"
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "Rate limiter\t%s\n", v.moduleText())
	fmt.Fprintf(table, "Caddy\t%s\n", v.Caddy)
	fmt.Fprintf(table, "Built with\t%s for %s\n", v.Go, v.Platform)
	fmt.Fprintf(table, "Database\tversion %d\n", v.Database)
	fmt.Fprintf(table, "Journal\t%s\n", journal)
	return table.Flush()
}

func (v versions) moduleText() string {
	text := v.Module
	if text == "" {
		text = "unknown"
	}
	if v.Revision != "" {
		text += ", revision " + v.Revision
	}
	if v.Modified {
		text += " with changes"
	}
	return text
}
