package console

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// exported is the complete state at one moment. Unavailable parts are missing, and Missing contains
// the reasons.
type exported struct {
	At       time.Time          `json:"at"`
	Status   *operator.Status   `json:"status,omitempty"`
	Zones    []operator.Zone    `json:"zones,omitempty"`
	Bans     []operator.Rule    `json:"bans,omitempty"`
	Top      []operator.Key     `json:"top,omitempty"`
	Blocked  []operator.Key     `json:"blocked,omitempty"`
	History  *operator.History  `json:"history,omitempty"`  // of the last day
	Refusals *operator.Refusals `json:"refusals,omitempty"` // of the last minutes
	Audit    []operator.Act     `json:"audit,omitempty"`
	Missing  map[string]string  `json:"missing,omitempty"`
}

// export returns `caddy rate-limit export`.
func (c console) export() *cobra.Command {
	var noClients bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Prints all that can be seen as JSON, to keep or for a report",
		Long: `Prints all that can be seen as one JSON object: health, zones, bans, the
heaviest keys, the history of the last day and the audit. It names clients:
leave them out with --no-clients before it goes to somebody else.`,
		Example: "  caddy rate-limit export --no-clients > rate-limit.json",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&noClients, "no-clients", false, "Leave out what names clients")
	return c.command(cmd, func(s *session, _ []string) error {
		status, err := s.Status(s.ctx) // fails if nothing is available
		if err != nil {
			return err
		}
		return wording.WriteJSON(s.out, s.exportAll(&status, noClients))
	})
}

func (s *session) exportAll(status *operator.Status, noClients bool) exported {
	all := exported{At: s.now.UTC(), Status: status, Missing: make(map[string]string)}
	note := func(what string, err error) {
		if err != nil {
			all.Missing[what] = err.Error()
		}
	}
	var err error
	all.Zones, err = s.Zones(s.ctx)
	note("zones", err)
	past, err := s.History(s.ctx, operator.HistoryQuery{From: s.now.Add(-24 * time.Hour), To: s.now})
	note("history", err)
	if err == nil {
		all.History = &past
	}
	if noClients {
		if all.History != nil {
			all.History.Heaviest = nil
		}
		return all
	}
	all.Bans, err = s.Bans(s.ctx)
	note("bans", err)
	all.Top, err = s.Keys(s.ctx, operator.KeysQuery{N: operator.MaxItems})
	note("top", err)
	all.Blocked, err = s.Keys(s.ctx, operator.KeysQuery{N: operator.MaxItems, Blocked: true})
	note("blocked", err)
	refusals, err := s.Refusals(s.ctx, operator.RefusalsQuery{})
	note("refusals", err)
	if err == nil {
		all.Refusals = &refusals
	}
	all.Audit, err = s.Audit(s.ctx, operator.AuditQuery{N: operator.MaxItems})
	note("audit", err)
	return all
}
